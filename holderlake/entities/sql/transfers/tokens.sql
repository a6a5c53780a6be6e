-- A number for each token, and whether its transfers can fund a wallet: those of its chain's coin, if the data have any.
SELECT
    CAST(row_number() OVER (ORDER BY chain, token_address) AS INTEGER) AS token,
    chain,
    token_address,
    token_address = 'native' OR NOT bool_or(token_address = 'native') OVER (PARTITION BY chain) AS funds
FROM (SELECT DISTINCT chain, token_address FROM given) AS given_tokens
