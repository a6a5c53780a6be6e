-- A wallet and the wallets that received their first transfer from it, unless it pays in batches on 3 days or more, as an
-- employer or a faucet does.
-- Level 2: up to 50 wallets. Level 1: more, or the transfers are not of the chain's coin.
WITH receivers AS (
    SELECT funder, id, time, is_coin
    FROM funded
    WHERE
        funder NOT IN (SELECT id FROM hubs)
        AND funder NOT IN (SELECT id FROM distributors)
        AND id NOT IN (SELECT id FROM hubs)
),
funders AS (
    SELECT
        funder,
        CASE WHEN count(*) <= 50 AND bool_and(is_coin) THEN 2 ELSE 1 END AS level,
        count(*) AS wallets,
        min(time) AS first_time,
        max(time) AS last_time
    FROM receivers
    GROUP BY funder
),
members AS (
    SELECT funder, funder AS id, level, wallets AS transfers, first_time, last_time FROM funders
    UNION ALL
    SELECT funders.funder, receivers.id, funders.level, 1, receivers.time, receivers.time
    FROM funders
    JOIN receivers ON receivers.funder = funders.funder
)
SELECT
    funder AS link,
    id,
    CASE WHEN id <> funder THEN funder END AS through,
    level,
    transfers,
    first_time,
    last_time
FROM members
