-- What the newest row about a token says.
SELECT chain, token_address, name, symbol
FROM tokens
WHERE chain = $chain AND token_address = $token
ORDER BY timestamp DESC
LIMIT 1
