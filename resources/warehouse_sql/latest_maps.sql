-- The latest map of each token.
-- Example: SELECT chain, token_address, service_score FROM latest_maps ORDER BY service_score;
CREATE OR REPLACE VIEW latest_maps AS
SELECT maps.*
FROM maps
SEMI JOIN (
    SELECT chain, token_address, max(timestamp) AS timestamp
    FROM maps
    GROUP BY chain, token_address
) AS newest USING (chain, token_address, timestamp);
