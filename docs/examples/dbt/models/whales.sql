-- The wallets with at least one per cent of a token's supply; exchanges and contracts are left out.
SELECT holders.chain, symbols.symbol, holders.token_address, holders.address, holders.rank, holders.share
FROM {{ source('holderlake', 'latest_holders') }} AS holders
JOIN {{ source('holderlake', 'symbols') }} AS symbols USING (chain, token_address)
ANTI JOIN {{ source('holderlake', 'special_addresses') }} AS special USING (chain, address)
WHERE holders.share >= 0.01
