-- A wallet and the wallets that it funded in one transaction, which pays 3 receivers or more, pays them like amounts of one
-- token (their standard deviation is at most half of their mean), and is the first transfer that most of them receive.
-- The payer pays directly or through a contract, and does not pay in batches on 3 days or more, as an employer or a
-- faucet does. Confidence: 0.85. Without times nothing shows which transfer is the first, so all count, with 0.8.
WITH alike AS (
    SELECT tx, token, sender, payer, time
    FROM batches
    WHERE (payer IS NULL OR payer NOT IN (SELECT id FROM distributors)) AND spread <= 0.5 * mean
),
singles AS (
    SELECT DISTINCT alike.tx, alike.token, alike.sender, alike.payer, alike.time, moves.receiver AS id
    FROM alike
    JOIN moves ON moves.tx = alike.tx AND moves.token = alike.token AND moves.sender = alike.sender
),
funding AS (
    SELECT singles.tx, singles.token, singles.sender, min(singles.payer) AS payer, min(singles.time) AS time
    FROM singles
    LEFT JOIN funded ON funded.id = singles.id AND funded.tx = singles.tx
    GROUP BY singles.tx, singles.token, singles.sender
    HAVING count(funded.id) > 0.5 * count(*) OR min(singles.time) IS NULL
),
members AS (
    SELECT singles.tx, singles.token, singles.sender, singles.id, singles.time
    FROM singles
    SEMI JOIN funding ON funding.tx = singles.tx AND funding.token = singles.token AND funding.sender = singles.sender
    UNION
    SELECT tx, token, sender, payer, time
    FROM funding
)
SELECT
    hashed(concat(tx, ' ', token, ' ', sender)) AS link,
    id,
    CASE WHEN id <> sender THEN sender END AS through,
    CASE WHEN time IS NULL THEN 0.8 ELSE 0.85 END AS confidence,
    1 AS transfers,
    time AS first_time,
    time AS last_time
FROM members
WHERE id NOT IN (SELECT id FROM hubs)
