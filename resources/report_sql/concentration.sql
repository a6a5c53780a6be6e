-- How concentrated the token was at each map.
SELECT * EXCLUDE (chain, token_address)
FROM concentration_history
WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
ORDER BY timestamp;
