-- The symbol and name of each token in the newest answer. Join it to show tokens by name.
-- Example: SELECT symbol, count(*) AS holders FROM latest_holders JOIN symbols USING (chain, token_address) GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW symbols AS
SELECT chain, token_address, symbol, name
FROM tokens
QUALIFY row_number() OVER (PARTITION BY chain, token_address ORDER BY fetched_at DESC, timestamp DESC) = 1;

-- True for a text that may be a token's symbol: it is shorter than every address.
-- Example: SELECT is_symbol('FERN') AS symbol, is_symbol('native') AS coin;
CREATE OR REPLACE MACRO is_symbol(given) AS
length(trim(given)) < 32 AND lower(trim(given)) <> 'native' AND NOT starts_with(lower(trim(given)), '0x');

-- The address of a token, from its symbol in any case, or from its address. A symbol that several tokens have is an
-- error: then give the address. Macros with a token accept both.
-- Example: SELECT token_of('0xABCDEF0000000000000000000000000000000001') AS of_address;
CREATE OR REPLACE MACRO token_of(given) AS
coalesce(
    (
        SELECT
            CASE
                WHEN count(DISTINCT token_address) > 1
                THEN error('several tokens have the symbol ' || any_value(symbol) || ': give the address of one')
                ELSE any_value(token_address)
            END
        FROM symbols
        WHERE is_symbol(given) AND lower(symbol) = lower(trim(given))
    ),
    plain_address(given)
);
