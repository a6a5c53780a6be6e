-- Clusters of each token's map; none where that map has none, whatever older maps had in its newest partition.
-- Example: SELECT chain, token_address, cluster_id, share FROM latest_clusters WHERE share > 0.05 ORDER BY share DESC, token_address;
CREATE OR REPLACE VIEW latest_clusters AS
SELECT clusters.*
FROM clusters
SEMI JOIN answered_as_of('maps', 'infinity') AS newest USING (chain, token_address, timestamp);

-- Clusters of each token's map; none where that map has none, whatever older maps had in its newest partition at or
-- before t: what was true at t.
-- Example: SELECT chain, token_address, cluster_id, share FROM clusters_as_of('2026-06-30') WHERE share > 0.05 ORDER BY share DESC, token_address;
CREATE OR REPLACE MACRO clusters_as_of(t) AS TABLE
SELECT clusters.*
FROM clusters
SEMI JOIN answered_as_of('maps', t) AS newest USING (chain, token_address, timestamp);

-- Clusters of each token's map; none where that map has none, whatever older maps had in its newest partition at or
-- before t, of what we knew at the instant known: what we held to be true of t then. Tokens whose rows were told
-- otherwise since have none: see answered_known_at.
-- Example: SELECT chain, token_address, cluster_id, share FROM clusters_known_at('2026-06-30', '2027-01-01') WHERE share > 0.05 ORDER BY share DESC, token_address;
CREATE OR REPLACE MACRO clusters_known_at(t, known) AS TABLE
SELECT clusters.*
FROM clusters
SEMI JOIN (FROM answered_known_at('clusters', t, known) WHERE NOT replaced) AS newest
    USING (chain, token_address, timestamp);
