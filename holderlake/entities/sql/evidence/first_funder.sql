-- A wallet and the wallets that received their first transfer from it, unless it pays in batches on 3 days or more, as an
-- employer or a faucet does. Confidence: 0.7 for up to 10 wallets, 0.5 for up to 50, 0.3 for more.
INSERT INTO links
WITH groups AS (
    SELECT funder, count(*) AS wallets, min(time) AS first_time, max(time) AS last_time
    FROM funded
    WHERE funder NOT IN (FROM hubs) AND funder NOT IN (FROM distributors) AND id NOT IN (FROM hubs)
    GROUP BY funder
    HAVING count(*) >= 2
),
members AS (
    SELECT funder, funder AS id, wallets, wallets AS transfers, first_time, last_time FROM groups
    UNION ALL
    SELECT groups.funder, funded.id, wallets, 1, time, time
    FROM groups
    JOIN funded ON funded.funder = groups.funder
    WHERE funded.id NOT IN (FROM hubs)
)
SELECT
    'first_funder',
    funder,
    id,
    funder,
    CASE WHEN wallets <= 10 THEN 0.7 WHEN wallets <= 50 THEN 0.5 ELSE 0.3 END,
    transfers,
    first_time,
    last_time
FROM members;
