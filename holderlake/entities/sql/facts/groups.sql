-- Links of a kind that finds pairs: the wallets that its pairs connect are one group (table groups).
SELECT
    groups.root AS link,
    ends.id,
    CAST(NULL AS INTEGER) AS through,
    max(ends.confidence) AS confidence,
    sum(ends.transfers) AS transfers,
    min(ends.first_time) AS first_time,
    max(ends.last_time) AS last_time
FROM (SELECT a AS id, pairs.* FROM pairs UNION ALL SELECT b, pairs.* FROM pairs) AS ends
JOIN groups ON groups.id = ends.id
GROUP BY groups.root, ends.id
