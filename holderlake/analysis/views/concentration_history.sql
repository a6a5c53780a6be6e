-- The concentration of each token at each of its maps, and the change of its score since the previous map of its series
-- (map_series): figures of maps with other options are not comparable. basis is that of holder_lists, for top_10_share and
-- the map's figures. The shares of exchanges and pools are null, not 0, if no address of the map has a label. contracts are
-- those without exchanges and pools, which maps.contracts has too.
-- concentration_by_period has the figures of all holders of a token of your store.
-- Example: SELECT timestamp, service_score, top_10_share FROM concentration_history ORDER BY token_address, timestamp;
CREATE OR REPLACE VIEW concentration_history AS
SELECT
    maps.chain,
    maps.token_address,
    maps.timestamp,
    series.series,
    series.series_maps,
    maps.service_score,
    maps.service_score - lag(maps.service_score) OVER history AS score_change,
    maps.gini_index,
    maps.herfindahl_hirschman_index,
    maps.nakamoto_coefficient,
    listed.top_10_share,
    listed.holders_listed,
    listed.is_complete,
    listed.basis,
    listed.holders_total,
    maps.top_10_adjusted,
    maps.bundles,
    coalesce(grouped.clusters, 0) AS clusters,
    grouped.largest_cluster_share,
    CASE WHEN maps.cexs > 0 OR named.has_names THEN maps.cexs END AS cexs,
    CASE WHEN maps.dexs > 0 OR named.has_names THEN maps.dexs END AS dexs,
    CASE WHEN maps.contracts IS NOT NULL THEN
        round(greatest(0, maps.contracts - coalesce(maps.dexs, 0) - coalesce(named.exchange_contracts, 0)), 12)
    END AS contracts,
    maps.fresh_wallets
FROM maps
JOIN map_series AS series
    ON series.chain = maps.chain
    AND series.token_address = maps.token_address
    AND series.timestamp = maps.timestamp
LEFT JOIN holder_lists AS listed
    ON listed.chain = maps.chain
    AND listed.token_address = maps.token_address
    AND listed.timestamp = maps.timestamp
LEFT JOIN (
    SELECT chain, token_address, timestamp, count(*) AS clusters, max(share) AS largest_cluster_share
    FROM clusters
    GROUP BY chain, token_address, timestamp
) AS grouped
    ON grouped.chain = maps.chain
    AND grouped.token_address = maps.token_address
    AND grouped.timestamp = maps.timestamp
LEFT JOIN (
    SELECT
        chain,
        token_address,
        timestamp,
        bool_or(label IS NOT NULL OR is_cex OR is_dex) AS has_names,
        sum(share) FILTER (
            kind = 'top_holder' AND is_cex AND is_contract AND is_dex IS NOT TRUE
        ) AS exchange_contracts
    FROM map_nodes
    GROUP BY chain, token_address, timestamp
) AS named
    ON named.chain = maps.chain
    AND named.token_address = maps.token_address
    AND named.timestamp = maps.timestamp
WINDOW history AS (PARTITION BY maps.chain, maps.token_address, series.series ORDER BY maps.timestamp);
