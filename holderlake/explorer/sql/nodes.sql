-- The nodes of a map, each with its cluster. Holders that are listed then, but are not on the map, have kind holder.
WITH members AS (
    SELECT address, cluster_id
    FROM cluster_members
    WHERE chain = $chain AND token_address = $token AND timestamp = $at
),
nodes AS (
    SELECT * EXCLUDE (chain, timestamp, token_address, fetched_at)
    FROM map_nodes
    WHERE chain = $chain AND token_address = $token AND timestamp = $at
),
listed AS (
    SELECT 'holder' AS kind, * EXCLUDE (chain, timestamp, token_address, fetched_at)
    FROM holders
    WHERE
        chain = $chain
        AND token_address = $token
        AND timestamp = $at
        AND address NOT IN (SELECT address FROM nodes WHERE kind = 'top_holder')
)
SELECT
    kind,
    address,
    time_node,
    rank,
    share,
    coalesce(amount_exact, rtrim(rtrim(CAST(amount AS VARCHAR), '0'), '.')) AS amount,
    is_shown_on_map,
    is_contract,
    is_cex,
    is_dex,
    is_supernode,
    label,
    is_paid_label,
    degree,
    inward_relations,
    outward_relations,
    epoch(first_activity_date)::BIGINT AS first_activity,
    cluster_id
FROM (FROM nodes UNION ALL BY NAME FROM listed)
LEFT JOIN members USING (address)
ORDER BY rank, kind, address, time_node
