-- The nodes that a token's maps have drawn, those of the most maps first, with their average share at these instants.
-- Each has the first address of the last cluster that it was in.
WITH members AS (
    SELECT address, timestamp, min(address) OVER (PARTITION BY timestamp, cluster_id) AS head
    FROM cluster_members
    WHERE chain = $chain AND token_address = $token
)
SELECT
    address,
    time_node,
    kind,
    avg(CAST(share AS DECIMAL(38, 18))) AS share, -- a sum of DOUBLE would depend on its order
    max(cluster) AS cluster,
    count(*) AS maps
FROM map_nodes
LEFT JOIN (SELECT address, arg_max(head, timestamp) AS cluster FROM members GROUP BY address) USING (address)
WHERE chain = $chain AND token_address = $token AND is_shown_on_map IS NOT false
GROUP BY address, time_node, kind
ORDER BY maps DESC, share DESC NULLS LAST, address, time_node, kind
LIMIT 700
