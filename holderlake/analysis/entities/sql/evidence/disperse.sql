-- A wallet and the wallets that it funded in one transaction, which pays 3 receivers or more, pays them like amounts of one
-- token (their standard deviation is at most half of their mean), and is the first transfer that most of them receive.
-- The payer pays directly or through a contract, and does not pay in batches on 3 days or more, as an employer or a
-- faucet does. Without times nothing shows which transfer is the first, so all count.
-- Level 1, and only the receivers: the payer is a hub, or not known and not a disperse tool; they are more than 250; or the
-- token is not the chain's coin, so that nothing shows the first funds. Level 2: the others.
WITH alike AS (
    SELECT
        tx,
        batches.token,
        sender,
        payer,
        time,
        (payer IS NULL AND NOT is_of_tool) OR is_of_hub OR (time IS NOT NULL AND NOT is_coin) AS is_distant
    FROM batches
    JOIN tokens ON tokens.token = batches.token
    WHERE (payer IS NULL OR payer NOT IN (SELECT id FROM distributors)) AND spread <= 0.5 * mean
),
singles AS (
    SELECT DISTINCT alike.*, moves.receiver AS id
    FROM alike
    JOIN moves ON moves.tx = alike.tx AND moves.token = alike.token AND moves.sender = alike.sender
),
funding AS (
    SELECT
        singles.tx,
        singles.token,
        singles.sender,
        singles.payer,
        singles.time,
        CASE WHEN singles.is_distant OR count(*) > $counterparties THEN 1 ELSE 2 END AS level
    FROM singles
    LEFT JOIN funded ON funded.id = singles.id AND funded.tx = singles.tx
    GROUP BY singles.tx, singles.token, singles.sender, singles.payer, singles.time, singles.is_distant
    HAVING count(funded.id) > 0.5 * count(*) OR singles.time IS NULL
),
members AS (
    SELECT singles.tx, singles.token, singles.sender, singles.id, singles.time, funding.level
    FROM singles
    JOIN funding ON funding.tx = singles.tx AND funding.token = singles.token AND funding.sender = singles.sender
    UNION
    SELECT tx, token, sender, payer, time, level
    FROM funding
    WHERE level > 1
)
SELECT
    hashed(concat(tx, ' ', token, ' ', sender)) AS link,
    id,
    CASE WHEN id <> sender THEN sender END AS through,
    level,
    1 AS transfers,
    time AS first_time,
    time AS last_time
FROM members
WHERE id NOT IN (SELECT id FROM hubs)
