-- Members of the clusters of each token's map in its newest partition.
-- Example: SELECT chain, token_address, cluster_id, count(*) AS members FROM latest_cluster_members GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW latest_cluster_members AS
SELECT cluster_members.*
FROM cluster_members
SEMI JOIN answered_as_of('maps', 'infinity') AS newest USING (chain, token_address, timestamp);

-- Members of the clusters of each token's map in its newest partition at or before t: what was true at t.
-- Example: SELECT chain, token_address, cluster_id, count(*) AS members FROM cluster_members_as_of('2026-06-30') GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE MACRO cluster_members_as_of(t) AS TABLE
SELECT cluster_members.*
FROM cluster_members
SEMI JOIN answered_as_of('maps', t) AS newest USING (chain, token_address, timestamp);

-- Members of the clusters of each token's map in its newest partition at or before t, of what we knew at the instant
-- known: what we held to be true of t then. Tokens whose rows were told otherwise since have none: see
-- answered_known_at.
-- Example: SELECT chain, token_address, cluster_id, count(*) AS members FROM cluster_members_known_at('2026-06-30', '2027-01-01') GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE MACRO cluster_members_known_at(t, known) AS TABLE
SELECT cluster_members.*
FROM cluster_members
SEMI JOIN (FROM answered_known_at('cluster_members', t, known) WHERE NOT replaced) AS newest
    USING (chain, token_address, timestamp);
