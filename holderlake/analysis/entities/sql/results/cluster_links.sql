-- The links, as in the file cluster_links.parquet. Times are in unix seconds here.
SELECT
    links.kind,
    links.link,
    wallets.address,
    passing.address AS through,
    links.confidence,
    links.transfers,
    links.first_time,
    links.last_time,
    CAST($as_of AS BIGINT) AS as_of
FROM links
JOIN wallets ON wallets.id = links.id
LEFT JOIN wallets AS passing ON passing.id = links.through
ORDER BY wallets.address, links.kind, links.link, through
