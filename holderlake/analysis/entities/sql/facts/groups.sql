-- Links of a kind that finds pairs: the wallets that its pairs connect are one group (table groups). The transfers of a wallet
-- are those with the wallet that it acts with most often.
SELECT
    groups.root AS link,
    groups.id,
    CAST(NULL AS INTEGER) AS through,
    1 AS level,
    max(ends.transfers) AS transfers,
    min(ends.first_time) AS first_time,
    max(ends.last_time) AS last_time
FROM (SELECT a AS id, pairs.* FROM pairs UNION ALL SELECT b, pairs.* FROM pairs) AS ends
JOIN groups ON groups.id = ends.id
GROUP BY groups.root, groups.id
