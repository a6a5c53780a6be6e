-- The newest transfers of a token from one address to another, up to an instant. Only own stores have single transfers.
SELECT
    epoch(block_time)::BIGINT AS time,
    exact_amount(amount, amount_exact) AS amount,
    token_id,
    tx_hash,
    count(*) OVER () AS found
FROM transfers
WHERE
    chain = $chain
    AND token_address = $token
    AND from_address = $sender
    AND to_address = $receiver
    AND block_time <= $at
ORDER BY block_time DESC, log_index DESC
LIMIT 100
