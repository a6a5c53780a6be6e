-- Transfers between two wallets. If the first transfer that a wallet ever received came from the other one, all that it
-- received from there is evidence of funding, and only what it sent back counts here. Confidence: 0.3 for one transfer,
-- 0.5 for more. Transfers both ways are not stronger: most such pairs are market makers or friends.
WITH counted AS (
    SELECT
        ties.a,
        ties.b,
        CASE WHEN of_b.funder = ties.a THEN 0 ELSE ties.forth END AS forth,
        CASE WHEN of_a.funder = ties.b THEN 0 ELSE ties.back END AS back,
        ties.first_time,
        ties.last_time
    FROM ties
    LEFT JOIN funded AS of_a ON of_a.id = ties.a
    LEFT JOIN funded AS of_b ON of_b.id = ties.b
    WHERE ties.a NOT IN (SELECT id FROM hubs) AND ties.b NOT IN (SELECT id FROM hubs)
),
linked AS (
    SELECT
        CAST(a AS BIGINT) * 2147483648 + b AS link,
        a,
        b,
        CASE WHEN forth + back > 1 THEN 0.5 ELSE 0.3 END AS confidence,
        forth + back AS transfers,
        first_time,
        last_time
    FROM counted
    WHERE forth + back >= 1
)
SELECT link, a AS id, b AS through, confidence, transfers, first_time, last_time FROM linked
UNION ALL
SELECT link, b, a, confidence, transfers, first_time, last_time FROM linked
