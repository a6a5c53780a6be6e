-- Wallets that send to the same deposit address: an address that sends to one exchange only, forwards at least nine tenths
-- of each token that it receives, and receives from 100 wallets or fewer. An exchange is a hub or has a label as one.
-- Level 2: up to 20 wallets. Level 1: more.
WITH forwarders AS (
    SELECT sender AS id
    FROM moves
    WHERE sender NOT IN (SELECT id FROM hubs)
    GROUP BY sender
    HAVING count(DISTINCT receiver) = 1 AND min(receiver) IN (SELECT id FROM exchanges)
),
totals AS (
    SELECT id, token, sum(received) AS received, sum(sent) AS sent
    FROM (
        SELECT receiver AS id, token, value AS received, 0 AS sent
        FROM moves
        WHERE receiver IN (SELECT id FROM forwarders)
        UNION ALL
        SELECT sender, token, 0, value
        FROM moves
        WHERE sender IN (SELECT id FROM forwarders)
    ) AS flows
    GROUP BY id, token
),
deposits AS (
    SELECT id FROM totals GROUP BY id HAVING bool_and(sent >= 0.9 * received)
),
users AS (
    SELECT receiver AS deposit, sender AS id, sum(transfers) AS transfers, min(block_time) AS first, max(block_time) AS last
    FROM moves
    WHERE receiver IN (SELECT id FROM deposits) AND sender NOT IN (SELECT id FROM hubs)
    GROUP BY receiver, sender
)
SELECT
    deposit AS link,
    id,
    deposit AS through,
    CASE WHEN wallets <= 20 THEN 2 ELSE 1 END AS level,
    transfers,
    first AS first_time,
    last AS last_time
FROM (SELECT *, count(*) OVER (PARTITION BY deposit) AS wallets FROM users) AS counted
WHERE wallets BETWEEN 2 AND 100
