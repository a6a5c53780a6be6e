-- Links of added addresses with each other and with the nodes of a map: transfers of the own store, up to the instant.
-- Pairs that the map connects already are left out.
WITH ends AS (
    SELECT address
    FROM map_nodes
    WHERE chain = $chain AND token_address = $token AND timestamp = $at AND kind <> 'time'
    UNION
    SELECT unnest($added)
)
SELECT
    from_address,
    to_address,
    NULL AS time_node,
    'transfer' AS rel_type,
    chain AS transfer_chain,
    token_address AS transfer_token,
    any_value(symbol) AS transfer_symbol,
    exact_total(amount, amount_exact) AS amount,
    count(*) AS transfers,
    epoch(min(block_time))::BIGINT AS first_date,
    epoch(max(block_time))::BIGINT AS last_date
FROM transfers
WHERE
    chain = $chain
    AND token_address = $token
    AND block_time <= $at
    AND from_address <> to_address
    AND (from_address IN (SELECT unnest($added)) OR to_address IN (SELECT unnest($added)))
    AND from_address IN (FROM ends)
    AND to_address IN (FROM ends)
    AND (from_address, to_address) NOT IN (
        SELECT (from_address, to_address)
        FROM grouped_transfers
        WHERE chain = $chain AND token_address = $token AND timestamp = $at AND time_node IS NULL
    )
GROUP BY from_address, to_address, chain, token_address
ORDER BY transfers DESC, from_address, to_address
