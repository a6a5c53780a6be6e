-- Holders of each token in its newest partition.
-- Example: SELECT chain, token_address, rank, address, share FROM latest_holders WHERE rank <= 10 ORDER BY chain, token_address, rank;
CREATE OR REPLACE VIEW latest_holders AS
SELECT holders.*
FROM holders
SEMI JOIN answered_as_of('holders', 'infinity') AS newest USING (chain, token_address, timestamp);

-- Holders of each token in its newest partition at or before t: what was true at t.
-- Example: SELECT chain, token_address, rank, address, share FROM holders_as_of('2026-06-30') WHERE rank <= 10 ORDER BY chain, token_address, rank;
CREATE OR REPLACE MACRO holders_as_of(t) AS TABLE
SELECT holders.*
FROM holders
SEMI JOIN answered_as_of('holders', t) AS newest USING (chain, token_address, timestamp);

-- Holders of each token in its newest partition at or before t, of what we knew at the instant known: what we held to
-- be true of t then. Tokens whose rows were told otherwise since have none: see answered_known_at.
-- Example: SELECT chain, token_address, rank, address, share FROM holders_known_at('2026-06-30', '2027-01-01') WHERE rank <= 10 ORDER BY chain, token_address, rank;
CREATE OR REPLACE MACRO holders_known_at(t, known) AS TABLE
SELECT holders.*
FROM holders
SEMI JOIN (FROM answered_known_at('holders', t, known) WHERE NOT replaced) AS newest
    USING (chain, token_address, timestamp);
