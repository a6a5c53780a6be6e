-- The concentration of each token at each of its maps, and the change of its score since the previous map.
-- Example: SELECT timestamp, service_score, top_10_share FROM concentration_history ORDER BY token_address, timestamp;
CREATE OR REPLACE VIEW concentration_history AS
SELECT
    maps.chain,
    maps.token_address,
    maps.timestamp,
    maps.service_score,
    maps.service_score - lag(maps.service_score) OVER history AS score_change,
    maps.gini_index,
    maps.herfindahl_hirschman_index,
    maps.nakamoto_coefficient,
    listed.top_10_share,
    listed.holders_listed,
    maps.top_10_adjusted,
    maps.bundles,
    maps.cexs,
    maps.dexs,
    maps.contracts,
    maps.fresh_wallets
FROM maps
SEMI JOIN comparable
    ON comparable.family = 'maps'
    AND comparable.chain = maps.chain
    AND comparable.token_address = maps.token_address
    AND comparable.timestamp = maps.timestamp
LEFT JOIN (
    SELECT
        chain,
        token_address,
        timestamp,
        sum(share) FILTER (rank <= 10) AS top_10_share,
        count(*) AS holders_listed
    FROM holders
    GROUP BY chain, token_address, timestamp
) AS listed
    ON listed.chain = maps.chain
    AND listed.token_address = maps.token_address
    AND listed.timestamp = maps.timestamp
WINDOW history AS (PARTITION BY maps.chain, maps.token_address ORDER BY maps.timestamp);
