-- The latest map of each token at or before t (a TIMESTAMP, or text that reads as one).
-- Example: SELECT chain, token_address, service_score FROM maps_as_of('2025-06-30');
CREATE OR REPLACE MACRO maps_as_of(t) AS TABLE
SELECT maps.*
FROM maps
SEMI JOIN (
    SELECT chain, token_address, max(timestamp) AS timestamp
    FROM maps
    WHERE timestamp <= CAST(t AS TIMESTAMP)
    GROUP BY chain, token_address
) AS newest USING (chain, token_address, timestamp);
