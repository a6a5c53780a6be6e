-- Transfers between two wallets. If the first transfer that a wallet ever received came from the other one, all that it
-- received from there is evidence of funding, and only what it sent back counts here. Confidence: 0.3 for one transfer,
-- 0.5 for more, 0.7 if they go both ways.
INSERT INTO links
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
    WHERE ties.a NOT IN (FROM hubs) AND ties.b NOT IN (FROM hubs)
)
SELECT
    'direct',
    row_number() OVER (ORDER BY a, b),
    unnest([a, b]),
    unnest([b, a]),
    CASE WHEN forth > 0 AND back > 0 THEN 0.7 WHEN forth + back > 1 THEN 0.5 ELSE 0.3 END,
    forth + back,
    first_time,
    last_time
FROM counted
WHERE forth + back >= 1;
