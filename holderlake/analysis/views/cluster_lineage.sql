-- How each cluster of a token's map is related to the clusters of its previous map. Two clusters are related if at least
-- half of the previous cluster's share is held by members of the later one (kept), or at least half of the later
-- cluster's share is held by members of the previous one (origin). Where a map has no shares, members count instead.
-- Example: FROM cluster_kinship WHERE shared_members < members ORDER BY ALL LIMIT 5;
CREATE OR REPLACE VIEW cluster_kinship AS
WITH members AS NOT MATERIALIZED (
    SELECT
        member.chain,
        member.token_address,
        member.timestamp,
        member.cluster_id,
        member.address,
        count(*) OVER cluster AS members,
        coalesce(node.share, 0) AS share,
        coalesce(coalesce(node.share, 0) / nullif(sum(node.share) OVER cluster, 0), 1 / count(*) OVER cluster) AS part
    FROM cluster_members AS member
    LEFT JOIN map_nodes AS node
        ON node.chain = member.chain
        AND node.token_address = member.token_address
        AND node.timestamp = member.timestamp
        AND node.address = member.address
        AND node.kind = 'top_holder'
    WINDOW cluster AS (PARTITION BY member.chain, member.token_address, member.timestamp, member.cluster_id)
)
SELECT
    present.chain,
    present.token_address,
    moments.previous_timestamp,
    present.timestamp,
    earlier.cluster_id AS previous_cluster_id,
    present.cluster_id,
    any_value(earlier.members) AS previous_members,
    any_value(present.members) AS members,
    count(*) AS shared_members,
    sum(earlier.share) AS shared_share,
    sum(earlier.part) AS kept,
    sum(present.part) AS origin,
    greatest(kept, origin) >= 0.5 - 1e-9 AS is_related
FROM members AS present
JOIN map_series AS moments
    ON moments.chain = present.chain
    AND moments.token_address = present.token_address
    AND moments.timestamp = present.timestamp
JOIN members AS earlier
    ON earlier.chain = present.chain
    AND earlier.token_address = present.token_address
    AND earlier.timestamp = moments.previous_timestamp
    AND earlier.address = present.address
GROUP BY ALL;

-- Each cluster and what happened to it since the token's previous map, by shares of supply: see cluster_kinship for
-- related clusters. Values of event: first (there is no previous map), merged (it is related to several clusters of the
-- previous map), split (the cluster that it is related to is related to others too), born (related to none), died (a row
-- of the next map without cluster_id, for a cluster that is related to none there); for two clusters that are related to
-- each other only: grew and shrank (by share), same (equal share and members), changed (equal share, other members). A
-- cluster continues the related one with the largest share in common (shared_share), if that is true from both sides.
-- Example: FROM cluster_lineage WHERE event IN ('born', 'died') ORDER BY chain, token_address, timestamp;
CREATE OR REPLACE VIEW cluster_lineage AS
WITH sizes AS NOT MATERIALIZED (
    SELECT chain, token_address, timestamp, cluster_id, count(*) AS members
    FROM cluster_members
    GROUP BY ALL
),
kinship AS NOT MATERIALIZED (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY chain, token_address, timestamp, cluster_id
            ORDER BY shared_share DESC, shared_members DESC, previous_cluster_id
        ) = 1
        AND row_number() OVER (
            PARTITION BY chain, token_address, timestamp, previous_cluster_id
            ORDER BY shared_share DESC, shared_members DESC, cluster_id
        ) = 1 AS continues,
        count(*) OVER (PARTITION BY chain, token_address, timestamp, previous_cluster_id) AS parts
    FROM cluster_kinship
    WHERE is_related
),
origins AS NOT MATERIALIZED (
    SELECT
        chain,
        token_address,
        timestamp,
        cluster_id,
        max(previous_cluster_id) FILTER (continues) AS previous_cluster_id,
        max(previous_members) FILTER (continues) AS previous_members,
        max(shared_members) FILTER (continues) AS shared_members,
        list(previous_cluster_id ORDER BY previous_cluster_id) AS related,
        min(previous_cluster_id) FILTER (parts > 1) AS split_from
    FROM kinship
    GROUP BY ALL
),
living AS (
    SELECT
        clusters.chain,
        clusters.token_address,
        clusters.timestamp,
        clusters.cluster_id,
        moments.previous_timestamp,
        origins.previous_cluster_id,
        sizes.members,
        origins.previous_members,
        origins.shared_members,
        clusters.share,
        earlier.share AS previous_share,
        CASE WHEN len(origins.related) > 1 THEN origins.related END AS merged_from,
        origins.split_from
    FROM clusters
    JOIN map_series AS moments USING (chain, token_address, timestamp)
    JOIN sizes USING (chain, token_address, timestamp, cluster_id)
    LEFT JOIN origins USING (chain, token_address, timestamp, cluster_id)
    LEFT JOIN clusters AS earlier
        ON earlier.chain = clusters.chain
        AND earlier.token_address = clusters.token_address
        AND earlier.timestamp = moments.previous_timestamp
        AND earlier.cluster_id = origins.previous_cluster_id
),
dead AS (
    SELECT
        moments.chain,
        moments.token_address,
        moments.timestamp,
        moments.previous_timestamp,
        sizes.cluster_id AS previous_cluster_id,
        sizes.members AS previous_members,
        clusters.share AS previous_share
    FROM sizes
    JOIN clusters USING (chain, token_address, timestamp, cluster_id)
    JOIN map_series AS moments
        ON moments.chain = sizes.chain
        AND moments.token_address = sizes.token_address
        AND moments.previous_timestamp = sizes.timestamp
    -- not an anti join: DuckDB would not push a filter on one token to its other side
    LEFT JOIN (
        SELECT DISTINCT chain, token_address, timestamp, previous_cluster_id, true AS has_heir FROM kinship
    ) AS heirs
        ON heirs.chain = sizes.chain
        AND heirs.token_address = sizes.token_address
        AND heirs.timestamp = moments.timestamp
        AND heirs.previous_cluster_id = sizes.cluster_id
    WHERE heirs.has_heir IS NULL
)
SELECT
    *,
    shared_members / (members + previous_members - shared_members) AS overlap,
    CASE
        WHEN previous_timestamp IS NULL THEN 'first'
        WHEN merged_from IS NOT NULL THEN 'merged'
        WHEN split_from IS NOT NULL THEN 'split'
        WHEN previous_cluster_id IS NULL THEN 'born'
        WHEN share > previous_share THEN 'grew'
        WHEN share < previous_share THEN 'shrank'
        WHEN members = shared_members AND previous_members = shared_members THEN 'same'
        ELSE 'changed'
    END AS event
FROM living
UNION ALL BY NAME
SELECT *, 'died' AS event
FROM dead;
