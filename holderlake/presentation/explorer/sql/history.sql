-- Every instant at which a token's holders or map are known, and how concentrated it was. days_after_data is null up to
-- the end of the source's data.
SELECT
    strftime(lists.timestamp, '%Y%m%dT%H%M%SZ') AS at,
    days_after_data,
    history.timestamp IS NOT NULL AS has_map,
    series,
    service_score,
    gini_index,
    herfindahl_hirschman_index,
    nakamoto_coefficient,
    lists.top_10_share,
    top_10_adjusted,
    cexs,
    dexs,
    contracts,
    fresh_wallets,
    bundles,
    lists.holders_listed AS holders,
    lists.holders_total,
    clusters,
    largest_cluster_share AS largest_cluster
FROM holder_lists AS lists
LEFT JOIN concentration_history AS history
    ON history.chain = lists.chain
    AND history.token_address = lists.token_address
    AND history.timestamp = lists.timestamp
LEFT JOIN (
    SELECT timestamp, max(days_after) AS days_after_data
    FROM after_source_end
    WHERE chain = $chain AND token_address = $token
    GROUP BY timestamp
) AS ended ON ended.timestamp = lists.timestamp
WHERE lists.chain = $chain AND lists.token_address = $token AND (lists.holders_listed > 0 OR history.timestamp IS NOT NULL)
ORDER BY lists.timestamp
