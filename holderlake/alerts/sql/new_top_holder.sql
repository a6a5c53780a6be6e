-- Alert when an address enters the first ranks: it was not among them in the list of holders before. The subject is the
-- address, the measured value its rank.
WITH moments AS (
    SELECT
        chain,
        token_address,
        timestamp,
        lag(timestamp) OVER (PARTITION BY chain, token_address ORDER BY timestamp) AS previous_timestamp
    FROM (
        SELECT DISTINCT chain, token_address, timestamp
        FROM holders
        SEMI JOIN watched USING (chain, token_address)
        SEMI JOIN (FROM comparable WHERE family = 'holders') AS comparable USING (chain, token_address, timestamp)
    )
),
news AS (
    SELECT *
    FROM moments
    WHERE timestamp BETWEEN $since AND $until AND previous_timestamp IS NOT NULL
)
SELECT
    present.chain,
    present.token_address,
    present.timestamp,
    present.address AS subject,
    CAST(present.timestamp AS VARCHAR) AS occasion,
    CAST(present.rank AS DOUBLE) AS measured,
    to_json({
        'label': coalesce(nodes.label, present.label),
        'is_cex': coalesce(nodes.is_cex, present.is_cex),
        'is_contract': coalesce(nodes.is_contract, present.is_contract),
        'rank': present.rank,
        'rank_before': earlier.rank,
        'share': present.share,
        'share_before': earlier.share,
        'amount': coalesce(present.amount_exact, CAST(present.amount AS VARCHAR)),
        'amount_before': coalesce(earlier.amount_exact, CAST(earlier.amount AS VARCHAR)),
        'first_activity_date': coalesce(nodes.first_activity_date, present.first_activity_date),
        'previous_timestamp': news.previous_timestamp
    }) AS evidence
FROM holders AS present
JOIN news USING (chain, token_address, timestamp)
LEFT JOIN holders AS earlier
    ON earlier.chain = present.chain
    AND earlier.token_address = present.token_address
    AND earlier.timestamp = news.previous_timestamp
    AND earlier.address = present.address
LEFT JOIN map_nodes AS nodes
    ON nodes.chain = present.chain
    AND nodes.token_address = present.token_address
    AND nodes.timestamp = present.timestamp
    AND nodes.address = present.address
    AND nodes.kind = 'top_holder'
WHERE present.rank <= $top AND coalesce(earlier.rank > $top, true)
ORDER BY present.timestamp, present.chain, present.token_address, present.rank;
