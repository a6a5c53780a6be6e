-- A number for each token; whether it is its chain's coin, as all transfers of data without tokens are taken to be; whether the
-- data have transfers of the coin, which alone show whom the wallets of a chain deal with; and whether transfers of the token
-- can fund a wallet: those of the coin, if there are any.
SELECT
    CAST(row_number() OVER (ORDER BY chain, token_address) AS INTEGER) AS token,
    chain,
    token_address,
    is_coin,
    bool_or(is_coin) OVER (PARTITION BY chain) AS is_complete,
    is_coin OR NOT bool_or(is_coin) OVER (PARTITION BY chain) AS funds
FROM (SELECT DISTINCT chain, token_address, token_address IN ('native', '') AS is_coin FROM given) AS given_tokens
