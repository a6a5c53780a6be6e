-- Every instant at which a token's holders or map are known, and how concentrated it was. days_after_data is null up to
-- the end of the source's data.
WITH instants AS (
    SELECT timestamp FROM maps WHERE chain = $chain AND token_address = $token
    UNION
    SELECT timestamp FROM holders WHERE chain = $chain AND token_address = $token AND rank = 1
),
grouped AS (
    SELECT timestamp, count(*) AS clusters, max(share) AS largest_cluster
    FROM clusters
    WHERE chain = $chain AND token_address = $token
    GROUP BY timestamp
),
ended AS (
    SELECT timestamp, max(days_after) AS days_after_data
    FROM after_source_end
    WHERE chain = $chain AND token_address = $token
    GROUP BY timestamp
),
drawn AS (
    SELECT timestamp, count(*) AS holders, sum(share) FILTER (rank <= 10) AS top_10
    FROM map_nodes
    WHERE chain = $chain AND token_address = $token AND kind = 'top_holder'
    GROUP BY timestamp
)
SELECT
    strftime(timestamp, '%Y%m%dT%H%M%SZ') AS at,
    days_after_data,
    dt_update IS NOT NULL AS has_map,
    service_score,
    gini_index,
    herfindahl_hirschman_index,
    nakamoto_coefficient,
    top_10,
    top_10_adjusted,
    cexs,
    dexs,
    contracts,
    fresh_wallets,
    bundles,
    holders,
    CASE WHEN dt_update IS NOT NULL THEN coalesce(clusters, 0) END AS clusters,
    largest_cluster
FROM instants
LEFT JOIN (FROM maps WHERE chain = $chain AND token_address = $token) USING (timestamp)
LEFT JOIN grouped USING (timestamp)
LEFT JOIN drawn USING (timestamp)
LEFT JOIN ended USING (timestamp)
ORDER BY timestamp
