-- Transfers between two wallets. If the first transfer that a wallet ever received came from the other one, all that it
-- received from there is evidence of funding, and only what it sent back counts here. Confidence: 0.3 for one transfer,
-- 0.5 for more. Transfers both ways are not stronger: most such pairs are market makers or friends.
WITH known AS (
    SELECT ties.*, coalesce(of_b.funder = ties.a, false) AS funds_b, coalesce(of_a.funder = ties.b, false) AS funds_a
    FROM ties
    LEFT JOIN funded AS of_a ON of_a.id = ties.a
    LEFT JOIN funded AS of_b ON of_b.id = ties.b
    WHERE ties.a NOT IN (SELECT id FROM hubs) AND ties.b NOT IN (SELECT id FROM hubs)
),
counted AS (
    SELECT
        a,
        b,
        CASE WHEN funds_b THEN 0 ELSE forth END + CASE WHEN funds_a THEN 0 ELSE back END AS transfers,
        least(CASE WHEN NOT funds_b THEN first_forth END, CASE WHEN NOT funds_a THEN first_back END) AS first_time,
        greatest(CASE WHEN NOT funds_b THEN last_forth END, CASE WHEN NOT funds_a THEN last_back END) AS last_time
    FROM known
),
linked AS (
    SELECT
        CAST(a AS BIGINT) * 2147483648 + b AS link,
        a,
        b,
        CASE WHEN transfers > 1 THEN 0.5 ELSE 0.3 END AS confidence,
        transfers,
        first_time,
        last_time
    FROM counted
    WHERE transfers >= 1
)
SELECT link, a AS id, b AS through, confidence, transfers, first_time, last_time FROM linked
UNION ALL
SELECT link, b, a, confidence, transfers, first_time, last_time FROM linked
