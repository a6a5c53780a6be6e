-- The newest symbol and name of each token, and nothing else: what to join to see and choose tokens by name.
-- Example: SELECT symbol, count(*) AS holders FROM latest_holders JOIN symbols USING (chain, token_address) GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW symbols AS
SELECT chain, token_address, symbol, name
FROM tokens
QUALIFY row_number() OVER (PARTITION BY chain, token_address ORDER BY timestamp DESC) = 1;

-- Names, symbols and transfer counts of tokens in its newest partition. Tokens have no history at the provider: a row
-- tells what was known at fetched_at, whatever past its partition is for.
-- Example: SELECT chain, symbol, name, transfers_count FROM latest_tokens ORDER BY ALL;
CREATE OR REPLACE VIEW latest_tokens AS
SELECT tokens.*
FROM tokens
SEMI JOIN answered_as_of('tokens', 'infinity') AS newest USING (chain, token_address, timestamp);

-- Names, symbols and transfer counts of tokens in its newest partition at or before t: what was true at t. Tokens have
-- no history at the provider: a row tells what was known at fetched_at, whatever past its partition is for.
-- Example: SELECT chain, symbol, name, transfers_count FROM tokens_as_of('2026-06-30') ORDER BY ALL;
CREATE OR REPLACE MACRO tokens_as_of(t) AS TABLE
SELECT tokens.*
FROM tokens
SEMI JOIN answered_as_of('tokens', t) AS newest USING (chain, token_address, timestamp);

-- Names, symbols and transfer counts of tokens in its newest partition at or before t, of what we knew at the instant
-- known: what we held to be true of t then. Tokens whose rows were told otherwise since have none: see
-- answered_known_at. Tokens have no history at the provider: a row tells what was known at fetched_at, whatever past
-- its partition is for.
-- Example: SELECT chain, symbol, name, transfers_count FROM tokens_known_at('2026-06-30', '2027-01-01') ORDER BY ALL;
CREATE OR REPLACE MACRO tokens_known_at(t, known) AS TABLE
SELECT tokens.*
FROM tokens
SEMI JOIN (FROM answered_known_at('tokens', t, known) WHERE NOT replaced) AS newest
    USING (chain, token_address, timestamp);
