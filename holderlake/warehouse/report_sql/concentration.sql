-- The token's concentration at each map. Exchanges are centralised ones and pools.
SELECT * EXCLUDE (chain, token_address), coalesce(cexs + dexs, cexs, dexs) AS exchanges
FROM concentration_history
WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
ORDER BY timestamp;
