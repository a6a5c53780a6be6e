-- The nodes of a map, each with its cluster. A magic node has its rank and share of the list of holders, if it is there.
-- Holders that are listed then, but are not on the map, have kind holder, and so have the addresses $added. The name of
-- an address is your own label at that instant, or else the one that the map or the list was fetched with. A map does
-- not name its time nodes: their names and kinds are those that other tables have up to then.
WITH members AS (
    SELECT address, cluster_id
    FROM cluster_members
    WHERE chain = $chain AND token_address = $token AND timestamp = $at
),
held AS (
    FROM holders
    WHERE chain = $chain AND token_address = $token AND timestamp = $at
),
known AS (
    SELECT
        address,
        arg_max(label, timestamp) AS label,
        arg_max(is_cex, timestamp) AS is_cex,
        arg_max(is_dex, timestamp) AS is_dex,
        arg_max(is_contract, timestamp) AS is_contract
    FROM (FROM addresses UNION ALL BY NAME FROM map_nodes WHERE token_address = $token AND kind = 'top_holder')
    WHERE chain = $chain AND timestamp <= $at
    GROUP BY address
),
nodes AS (
    SELECT map_nodes.* EXCLUDE (chain, timestamp, token_address, fetched_at) REPLACE (
        coalesce(map_nodes.label, known.label) AS label,
        coalesce(map_nodes.is_cex, known.is_cex) AS is_cex,
        coalesce(map_nodes.is_dex, known.is_dex) AS is_dex,
        coalesce(map_nodes.is_contract, known.is_contract) AS is_contract,
        coalesce(map_nodes.rank, held.rank) AS rank,
        coalesce(map_nodes.share, held.share) AS share,
        coalesce(map_nodes.amount, held.amount) AS amount,
        coalesce(map_nodes.amount_exact, held.amount_exact) AS amount_exact
    )
    FROM map_nodes
    LEFT JOIN held ON map_nodes.kind = 'magic' AND map_nodes.address = held.address
    LEFT JOIN known ON map_nodes.kind = 'time' AND map_nodes.address = known.address
    WHERE map_nodes.chain = $chain AND map_nodes.token_address = $token AND map_nodes.timestamp = $at
),
listed AS (
    SELECT 'holder' AS kind, * EXCLUDE (chain, timestamp, token_address, holder_limit, fetched_at)
    FROM held
    WHERE address NOT IN (SELECT address FROM nodes WHERE kind IN ('top_holder', 'magic'))
),
added AS (
    SELECT DISTINCT 'holder' AS kind, address
    FROM (SELECT unnest(CAST($added AS VARCHAR[])) AS address)
    WHERE
        address NOT IN (SELECT address FROM nodes WHERE kind IN ('top_holder', 'magic'))
        AND address NOT IN (SELECT address FROM held)
)
SELECT
    * EXCLUDE (own_label, amount, amount_exact, first_activity_date) REPLACE (coalesce(own_label, label) AS label),
    exact_amount(amount, amount_exact) AS amount,
    epoch(first_activity_date)::BIGINT AS first_activity
FROM (FROM nodes UNION ALL BY NAME FROM listed UNION ALL BY NAME FROM added)
LEFT JOIN members USING (address)
LEFT JOIN (
    SELECT address, max(label) AS own_label FROM labels_as_of(CAST($at AS TIMESTAMPTZ)) WHERE chain = $chain GROUP BY address
) USING (address)
ORDER BY rank, kind, address, time_node
