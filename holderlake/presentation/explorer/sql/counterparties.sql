-- The wallets with the most transfers of a token from and to an address, up to an instant. Only own stores have them.
SELECT
    if(from_address = $address, to_address, from_address) AS address,
    count(*) FILTER (to_address = $address) AS transfers_in,
    count(*) FILTER (from_address = $address) AS transfers_out
FROM transfers
WHERE
    chain = $chain
    AND token_address = $token
    AND (from_address = $address OR to_address = $address)
    AND from_address <> to_address
    AND block_time <= $at
GROUP BY ALL
ORDER BY count(*) DESC, address
LIMIT 10
