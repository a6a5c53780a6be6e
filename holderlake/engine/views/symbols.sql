-- The symbol and name of each token: those of the newest answer, or of your store where it has none. Join it to show
-- tokens by name.
-- Example: SELECT symbol, count(*) AS holders FROM latest_holders JOIN symbols USING (chain, token_address) GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW symbols AS
SELECT chain, token_address, coalesce(answered.symbol, stored.symbol) AS symbol, answered.name
FROM (
    FROM tokens
    QUALIFY row_number() OVER (PARTITION BY chain, token_address ORDER BY fetched_at DESC, timestamp DESC) = 1
) AS answered
FULL JOIN stored_tokens AS stored USING (chain, token_address);

-- True for a text that may be a token's symbol: it is shorter than every address.
-- Example: SELECT is_symbol('FERN') AS symbol, is_symbol('native') AS coin;
CREATE OR REPLACE MACRO is_symbol(given) AS
length(trim(given)) < 32 AND lower(trim(given)) <> 'native' AND NOT starts_with(lower(trim(given)), '0x');

-- Tokens that the warehouse knows: those of symbols, and those with an answer.
-- Example: SELECT count(*) AS tokens FROM known_tokens;
CREATE OR REPLACE VIEW known_tokens AS
SELECT chain, token_address, any_value(symbol) AS symbol
FROM (
    SELECT chain, token_address, symbol FROM symbols
    UNION ALL
    SELECT chain, subject, NULL FROM coverage WHERE family IN ('tokens', 'holders', 'maps')
)
GROUP BY chain, token_address;

-- The address of a token, from its symbol in any case, or from its address. A symbol that several tokens have is an
-- error: then give the address. A symbol or address that no token has is an error too, which names similar ones, and so
-- is a NULL. Macros with a token accept both.
-- Example: SELECT token_of(min(token_address)) AS of_address FROM tokens;
CREATE OR REPLACE MACRO token_of(given) AS (
    SELECT
        CASE
            WHEN given IS NULL
            THEN error('the token is NULL: give its symbol or address. A subquery that finds no row gives NULL')
            WHEN count(DISTINCT token_address) FILTER (distance = 0) > 1
            THEN error(
                'several tokens have the symbol ' || any_value(name) FILTER (distance = 0) || ': give the address of one: '
                || string_agg(DISTINCT token_address || ' on ' || chain, ', ') FILTER (distance = 0)
            )
            WHEN coalesce(min(distance) > 0, true)
            THEN error(
                'no token has the ' || CASE WHEN is_symbol(given) THEN 'symbol ' ELSE 'address ' END || trim(given)
                || coalesce(
                    '; similar: ' || array_to_string(
                        list_sort(list_distinct(arg_min(name, distance, 4) FILTER (is_symbol(given) OR distance <= 6))), ', '
                    ),
                    ''
                )
                || '. The view known_tokens lists all'
            )
            ELSE any_value(token_address) FILTER (distance = 0)
        END
    FROM (
        SELECT
            chain,
            token_address,
            CASE WHEN is_symbol(given) THEN symbol ELSE token_address END AS name,
            CASE
                WHEN is_symbol(given) THEN damerau_levenshtein(lower(symbol), lower(trim(given)))
                ELSE damerau_levenshtein(token_address, plain_address(given))
            END AS distance
        FROM known_tokens
    )
);

-- The address of a token of your store, from its symbol or address as in token_of. A token without transfers in your store
-- is an error.
-- Example: SELECT stored_token_of(min(token_address)) AS of_address FROM stored_tokens;
CREATE OR REPLACE MACRO stored_token_of(given) AS (
    SELECT
        CASE
            WHEN address IN (SELECT token_address FROM stored_tokens) THEN address
            ELSE error('your store has no transfers of ' || trim(given) || '. The view stored_tokens lists its tokens')
        END
    FROM (SELECT token_of(given) AS address)
);
