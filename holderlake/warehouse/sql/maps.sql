-- Each token's map in its newest partition.
-- Example: SELECT chain, token_address, service_score, cexs FROM latest_maps ORDER BY service_score;
CREATE OR REPLACE VIEW latest_maps AS
SELECT maps.*
FROM maps
SEMI JOIN answered_as_of('maps', 'infinity') AS newest USING (chain, token_address, timestamp);

-- Each token's map in its newest partition at or before t: what was true at t.
-- Example: SELECT chain, token_address, service_score, cexs FROM maps_as_of('2026-06-30') ORDER BY service_score;
CREATE OR REPLACE MACRO maps_as_of(t) AS TABLE
SELECT maps.*
FROM maps
SEMI JOIN answered_as_of('maps', t) AS newest USING (chain, token_address, timestamp);

-- Each token's map in its newest partition at or before t, of what we knew at the instant known: what we held to be
-- true of t then. Tokens whose rows were told otherwise since have none: see answered_known_at.
-- Example: SELECT chain, token_address, service_score, cexs FROM maps_known_at('2026-06-30', '2027-01-01') ORDER BY service_score;
CREATE OR REPLACE MACRO maps_known_at(t, known) AS TABLE
SELECT maps.*
FROM maps
SEMI JOIN (FROM answered_known_at('maps', t, known) WHERE NOT replaced) AS newest
    USING (chain, token_address, timestamp);
