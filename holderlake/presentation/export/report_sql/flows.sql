-- The largest sums between nodes of the last map, since the first transfer; of an exchange, each in one window of time.
WITH last AS (
    SELECT max(timestamp) AS timestamp
    FROM maps
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
),
nodes AS (
    SELECT address, max(label) AS label, bool_or(coalesce(is_cex, false) OR kind = 'time') AS is_exchange
    FROM map_nodes
    WHERE chain = $chain AND token_address = $token AND timestamp = (SELECT timestamp FROM last)
    GROUP BY address
)
SELECT
    flows.from_address,
    sender.label AS from_label,
    flows.to_address,
    receiver.label AS to_label,
    coalesce(sender.is_exchange, false) OR coalesce(receiver.is_exchange, false) AS is_exchange,
    exact_amount(flows.total_value, flows.total_value_exact) AS value,
    flows.total_transfers,
    flows.first_date,
    flows.last_date,
    count(*) OVER () AS of_all
FROM grouped_transfers AS flows
LEFT JOIN nodes AS sender ON sender.address = flows.from_address
LEFT JOIN nodes AS receiver ON receiver.address = flows.to_address
WHERE flows.chain = $chain
    AND flows.token_address = $token
    AND flows.timestamp = (SELECT timestamp FROM last)
    AND flows.transfer_token = $token
    AND coalesce(flows.transfer_chain, $chain) = $chain
ORDER BY amount_units(value) DESC, flows.from_address, flows.to_address
LIMIT 20;
