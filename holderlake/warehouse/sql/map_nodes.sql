-- Nodes of each token's map in its newest partition.
-- Example: SELECT token_address, label, share FROM latest_map_nodes WHERE is_cex ORDER BY share DESC, token_address, label;
CREATE OR REPLACE VIEW latest_map_nodes AS
SELECT map_nodes.*
FROM map_nodes
SEMI JOIN answered_as_of('maps', 'infinity') AS newest USING (chain, token_address, timestamp);

-- Nodes of each token's map in its newest partition at or before t: what was true at t.
-- Example: SELECT token_address, label, share FROM map_nodes_as_of('2026-06-30') WHERE is_cex ORDER BY share DESC, token_address, label;
CREATE OR REPLACE MACRO map_nodes_as_of(t) AS TABLE
SELECT map_nodes.*
FROM map_nodes
SEMI JOIN answered_as_of('maps', t) AS newest USING (chain, token_address, timestamp);

-- Nodes of each token's map in its newest partition at or before t, of what we knew at the instant known: what we held
-- to be true of t then. Tokens whose rows were told otherwise since have none: see answered_known_at.
-- Example: SELECT token_address, label, share FROM map_nodes_known_at('2026-06-30', '2027-01-01') WHERE is_cex ORDER BY share DESC, token_address, label;
CREATE OR REPLACE MACRO map_nodes_known_at(t, known) AS TABLE
SELECT map_nodes.*
FROM map_nodes
SEMI JOIN (FROM answered_known_at('map_nodes', t, known) WHERE NOT replaced) AS newest
    USING (chain, token_address, timestamp);
