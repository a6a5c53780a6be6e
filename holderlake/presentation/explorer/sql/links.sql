-- The relationships of a map.
SELECT
    from_address,
    to_address,
    time_node,
    rel_type,
    transfer_chain,
    transfer_token,
    symbol AS transfer_symbol,
    exact_amount(total_value, total_value_exact) AS amount,
    total_transfers AS transfers,
    epoch(first_date)::BIGINT AS first_date,
    epoch(last_date)::BIGINT AS last_date
FROM grouped_transfers
LEFT JOIN symbols AS sent
    ON sent.chain = transfer_chain AND sent.token_address = transfer_token
WHERE grouped_transfers.chain = $chain AND grouped_transfers.token_address = $token AND timestamp = $at
ORDER BY total_transfers DESC, from_address, to_address, transfer_chain, transfer_token, time_node
