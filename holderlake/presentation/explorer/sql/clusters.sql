-- The clusters of a map.
SELECT
    cluster_id,
    share,
    exact_amount(amount, amount_exact) AS amount,
    holder_count,
    magic_node_count
FROM clusters
WHERE chain = $chain AND token_address = $token AND timestamp = $at
ORDER BY cluster_id
