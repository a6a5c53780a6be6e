-- The newest symbol and name of each token. Join it to show tokens by name.
-- Example: SELECT symbol, count(*) AS holders FROM latest_holders JOIN symbols USING (chain, token_address) GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW symbols AS
SELECT chain, token_address, symbol, name
FROM tokens
QUALIFY row_number() OVER (PARTITION BY chain, token_address ORDER BY timestamp DESC) = 1;
