-- Links of a kind that finds pairs: the wallets that its pairs connect are one group for each confidence (table groups).
-- The transfers of a wallet are those with the wallet that it acts with most often.
SELECT
    groups.link,
    groups.id,
    CAST(NULL AS INTEGER) AS through,
    groups.confidence,
    max(ends.transfers) AS transfers,
    min(ends.first_time) AS first_time,
    max(ends.last_time) AS last_time
FROM (SELECT a AS id, pairs.* FROM pairs UNION ALL SELECT b, pairs.* FROM pairs) AS ends
JOIN groups ON groups.id = ends.id AND groups.confidence <= ends.confidence
GROUP BY groups.link, groups.id, groups.confidence
