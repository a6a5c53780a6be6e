-- Holders of each token in its latest partition.
-- Example: SELECT rank, address, share FROM latest_holders WHERE chain = 'eth' ORDER BY token_address, rank;
CREATE OR REPLACE VIEW latest_holders AS
SELECT holders.*
FROM holders
SEMI JOIN (
    SELECT chain, token_address, max(timestamp) AS timestamp
    FROM holders
    GROUP BY chain, token_address
) AS newest USING (chain, token_address, timestamp);
