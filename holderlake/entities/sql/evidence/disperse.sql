-- A wallet and the wallets that it funded in one transaction, which pays 3 receivers or more, pays them like amounts of one
-- token (their standard deviation is at most half of their mean), and is the first transfer that most of them receive.
-- The payer pays directly or through a contract, and does not pay in batches on 3 days or more, as an employer or a
-- faucet does. Confidence: 0.85.
INSERT INTO links
WITH singles AS (
    SELECT tx, token, sender, payer, mean, spread, time, unnest(receivers) AS id
    FROM batches
    WHERE payer NOT IN (FROM distributors)
),
funding AS (
    SELECT singles.tx, singles.token, singles.sender, any_value(payer) AS payer, any_value(singles.time) AS time
    FROM singles
    LEFT JOIN funded ON funded.id = singles.id AND funded.tx = singles.tx
    GROUP BY ALL
    HAVING count(funded.id) > 0.5 * count(*) AND any_value(spread) <= 0.5 * any_value(mean)
),
members AS (
    SELECT tx, token, sender, id, time FROM singles SEMI JOIN funding USING (tx, token, sender)
    UNION ALL
    SELECT tx, token, sender, payer, time FROM funding
)
SELECT 'disperse', dense_rank() OVER (ORDER BY tx, token, sender), id, sender, 0.85, 1, time, time
FROM members
WHERE id NOT IN (FROM hubs);
