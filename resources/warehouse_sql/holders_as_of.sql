-- Holders of each token in its latest partition at or before t (a TIMESTAMP, or text that reads as one).
-- Example: FROM holders_as_of('2025-06-30 12:00:00') WHERE rank <= 10 ORDER BY chain, token_address, rank;
CREATE OR REPLACE MACRO holders_as_of(t) AS TABLE
SELECT holders.*
FROM holders
SEMI JOIN (
    SELECT chain, token_address, max(timestamp) AS timestamp
    FROM holders
    WHERE timestamp <= CAST(t AS TIMESTAMP)
    GROUP BY chain, token_address
) AS newest USING (chain, token_address, timestamp);
