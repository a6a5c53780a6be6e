-- What an address got and sent of a token in each month, up to an instant. Only own stores have single transfers.
SELECT
    epoch(date_trunc('month', block_time))::BIGINT AS month,
    to_address = $address AS is_received,
    exact_total(amount, amount_exact) AS amount,
    count(*) AS transfers
FROM transfers
WHERE
    chain = $chain
    AND token_address = $token
    AND (from_address = $address OR to_address = $address)
    AND from_address <> to_address
    AND block_time <= $at
GROUP BY ALL
ORDER BY month DESC, is_received DESC
LIMIT 240
