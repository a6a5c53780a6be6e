-- Relationships of each token's map; they hold sums from the first transfer on in its newest partition.
-- Example: SELECT from_address, to_address, total_value FROM latest_grouped_transfers WHERE time_node IS NULL ORDER BY ALL LIMIT 5;
CREATE OR REPLACE VIEW latest_grouped_transfers AS
SELECT grouped_transfers.*
FROM grouped_transfers
SEMI JOIN answered_as_of('maps', 'infinity') AS newest USING (chain, token_address, timestamp);

-- Relationships of each token's map; they hold sums from the first transfer on in its newest partition at or before t:
-- what was true at t.
-- Example: SELECT from_address, to_address, total_value FROM grouped_transfers_as_of('2026-06-30') WHERE time_node IS NULL ORDER BY ALL LIMIT 5;
CREATE OR REPLACE MACRO grouped_transfers_as_of(t) AS TABLE
SELECT grouped_transfers.*
FROM grouped_transfers
SEMI JOIN answered_as_of('maps', t) AS newest USING (chain, token_address, timestamp);

-- Relationships of each token's map; they hold sums from the first transfer on in its newest partition at or before t,
-- of what we knew at the instant known: what we held to be true of t then. Tokens whose rows were told otherwise since
-- have none: see answered_known_at.
-- Example: SELECT from_address, to_address, total_value FROM grouped_transfers_known_at('2026-06-30', '2027-01-01') WHERE time_node IS NULL ORDER BY ALL LIMIT 5;
CREATE OR REPLACE MACRO grouped_transfers_known_at(t, known) AS TABLE
SELECT grouped_transfers.*
FROM grouped_transfers
SEMI JOIN (FROM answered_known_at('grouped_transfers', t, known) WHERE NOT replaced) AS newest
    USING (chain, token_address, timestamp);
