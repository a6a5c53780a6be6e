-- The nodes that a token's maps have drawn, those of the most maps first, with their average share at these instants.
SELECT
    address,
    time_node,
    kind,
    avg(share) AS share,
    count(*) AS maps
FROM map_nodes
WHERE chain = $chain AND token_address = $token AND is_shown_on_map IS NOT false
GROUP BY address, time_node, kind
ORDER BY maps DESC, share DESC NULLS LAST, address, time_node, kind
LIMIT 700
