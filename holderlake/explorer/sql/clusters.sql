-- The clusters of a map.
SELECT
    cluster_id,
    share,
    coalesce(amount_exact, rtrim(rtrim(CAST(amount AS VARCHAR), '0'), '.')) AS amount,
    holder_count,
    magic_node_count
FROM clusters
WHERE chain = $chain AND token_address = $token AND timestamp = $at
ORDER BY cluster_id
