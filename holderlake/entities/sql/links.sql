-- The links, as in the file cluster_links.parquet.
SELECT
    kind,
    link,
    wallets.address,
    passing.address AS through,
    confidence,
    transfers,
    make_timestamp(first_time * 1000000) AS first_time,
    make_timestamp(last_time * 1000000) AS last_time,
    getvariable('as_of') AS as_of
FROM links
JOIN wallets ON wallets.id = links.id
LEFT JOIN wallets AS passing ON passing.id = through
ORDER BY wallets.address, kind, link, passing.address
