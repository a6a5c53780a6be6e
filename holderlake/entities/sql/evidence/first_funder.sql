-- A wallet and the wallets that received their first transfer from it, unless it pays in batches on 3 days or more, as an
-- employer or a faucet does. Confidence: 0.7 for up to 10 wallets, 0.5 for up to 50, 0.3 for more.
WITH receivers AS (
    SELECT funder, id, time
    FROM funded
    WHERE
        funder NOT IN (SELECT id FROM hubs)
        AND funder NOT IN (SELECT id FROM distributors)
        AND id NOT IN (SELECT id FROM hubs)
),
funders AS (
    SELECT funder, count(*) AS wallets, min(time) AS first_time, max(time) AS last_time
    FROM receivers
    GROUP BY funder
    HAVING count(*) >= 2
),
members AS (
    SELECT funder, funder AS id, wallets, wallets AS transfers, first_time, last_time FROM funders
    UNION ALL
    SELECT funders.funder, receivers.id, funders.wallets, 1, receivers.time, receivers.time
    FROM funders
    JOIN receivers ON receivers.funder = funders.funder
)
SELECT
    funder AS link,
    id,
    CASE WHEN id <> funder THEN funder END AS through,
    CASE WHEN wallets <= 10 THEN 0.7 WHEN wallets <= 50 THEN 0.5 ELSE 0.3 END AS confidence,
    transfers,
    first_time,
    last_time
FROM members
