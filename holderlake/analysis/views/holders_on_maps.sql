-- Holders as of t with their cluster, and the figures of the token's map at the instant of the list: the join of
-- holders_as_of, maps, cluster_members and clusters on chain, token_address and timestamp. Without the timestamp, such a
-- join repeats each holder for every map. If no map was fetched at that instant, has_map is false and its columns are
-- null.
-- Example: SELECT token_address, rank, address, cluster_id, service_score FROM holders_on_maps_as_of('2026-06-30') WHERE rank <= 3 ORDER BY token_address, chain, rank LIMIT 6;
CREATE OR REPLACE MACRO holders_on_maps_as_of(t) AS TABLE
SELECT
    holders.*,
    maps.chain IS NOT NULL AS has_map,
    members.cluster_id,
    clusters.share AS cluster_share,
    clusters.holder_count AS cluster_holders,
    maps.service_score,
    maps.gini_index,
    maps.nakamoto_coefficient,
    maps.holder_limit AS map_holder_limit
FROM holders_as_of(t) AS holders
LEFT JOIN maps
    ON maps.chain = holders.chain
    AND maps.token_address = holders.token_address
    AND maps.timestamp = holders.timestamp
LEFT JOIN cluster_members AS members
    ON members.chain = holders.chain
    AND members.token_address = holders.token_address
    AND members.timestamp = holders.timestamp
    AND members.address = holders.address
LEFT JOIN clusters
    ON clusters.chain = members.chain
    AND clusters.token_address = members.token_address
    AND clusters.timestamp = members.timestamp
    AND clusters.cluster_id = members.cluster_id;
