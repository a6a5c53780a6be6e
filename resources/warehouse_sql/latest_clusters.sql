-- Clusters on the latest map of each token; none where that map has none, whatever older maps had.
-- Example: SELECT token_address, cluster_id, share FROM latest_clusters WHERE share > 0.05 ORDER BY share DESC;
CREATE OR REPLACE VIEW latest_clusters AS
SELECT clusters.*
FROM clusters
SEMI JOIN (
    SELECT chain, token_address, max(timestamp) AS timestamp
    FROM maps
    GROUP BY chain, token_address
) AS newest USING (chain, token_address, timestamp);
