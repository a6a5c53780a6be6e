-- The number of members that each cluster of a token's map shares with each cluster of its previous map.
-- Example: FROM cluster_kinship WHERE shared_members < members ORDER BY ALL LIMIT 5;
CREATE OR REPLACE VIEW cluster_kinship AS
WITH moments AS NOT MATERIALIZED (
    SELECT
        chain,
        token_address,
        timestamp,
        lag(timestamp) OVER (PARTITION BY chain, token_address ORDER BY timestamp) AS previous_timestamp
    FROM comparable
    WHERE family = 'maps'
),
members AS NOT MATERIALIZED (
    SELECT *, count(*) OVER (PARTITION BY chain, token_address, timestamp, cluster_id) AS members
    FROM cluster_members
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
    count(*) AS shared_members
FROM members AS present
JOIN moments
    ON moments.chain = present.chain
    AND moments.token_address = present.token_address
    AND moments.timestamp = present.timestamp
JOIN members AS earlier
    ON earlier.chain = present.chain
    AND earlier.token_address = present.token_address
    AND earlier.timestamp = moments.previous_timestamp
    AND earlier.address = present.address
GROUP BY ALL;

-- Each cluster and what happened to it since the token's previous map. A cluster continues the cluster of the previous
-- map that shares most members with it, if it is also the closest one of that cluster. Values of event: first (there is
-- no previous map), merged (more than half of each of several clusters joined it), split (it and others each got more
-- than half of their members from one cluster), grew, shrank, same (the same members), changed (equally many, but other
-- members), born (it continues no cluster, and did not merge or split), died (a row of the next map without cluster_id:
-- no cluster continues it, got more than half of its members, or got most of its members from it).
-- Example: FROM cluster_lineage WHERE event IN ('born', 'died') ORDER BY chain, token_address, timestamp;
CREATE OR REPLACE VIEW cluster_lineage AS
WITH moments AS NOT MATERIALIZED (
    SELECT
        chain,
        token_address,
        timestamp,
        lag(timestamp) OVER (PARTITION BY chain, token_address ORDER BY timestamp) AS previous_timestamp
    FROM comparable
    WHERE family = 'maps'
),
sizes AS NOT MATERIALIZED (
    SELECT chain, token_address, timestamp, cluster_id, count(*) AS members
    FROM cluster_members
    GROUP BY ALL
),
kinship AS NOT MATERIALIZED (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY chain, token_address, timestamp, cluster_id
            ORDER BY shared_members DESC, previous_members, previous_cluster_id
        ) = 1
        AND row_number() OVER (
            PARTITION BY chain, token_address, timestamp, previous_cluster_id
            ORDER BY shared_members DESC, members, cluster_id
        ) = 1 AS continues,
        2 * shared_members > previous_members AS took_most,
        2 * shared_members > members AS came_from,
        count(*) FILTER (2 * shared_members > members) OVER (
            PARTITION BY chain, token_address, timestamp, previous_cluster_id
        ) AS parts
    FROM cluster_kinship
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
        list(previous_cluster_id ORDER BY previous_cluster_id) FILTER (took_most) AS merged_from,
        max(previous_cluster_id) FILTER (came_from AND parts > 1) AS split_from
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
        CASE WHEN len(origins.merged_from) > 1 THEN origins.merged_from END AS merged_from,
        origins.split_from
    FROM clusters
    JOIN moments USING (chain, token_address, timestamp)
    JOIN sizes USING (chain, token_address, timestamp, cluster_id)
    LEFT JOIN origins USING (chain, token_address, timestamp, cluster_id)
),
dead AS (
    SELECT
        moments.chain,
        moments.token_address,
        moments.timestamp,
        moments.previous_timestamp,
        sizes.cluster_id AS previous_cluster_id,
        sizes.members AS previous_members
    FROM sizes
    JOIN moments
        ON moments.chain = sizes.chain
        AND moments.token_address = sizes.token_address
        AND moments.previous_timestamp = sizes.timestamp
    -- not an anti join: DuckDB would not push a filter on one token to its other side
    LEFT JOIN (
        SELECT
            chain, token_address, timestamp, previous_cluster_id, bool_or(continues OR took_most OR came_from) AS has_heir
        FROM kinship
        GROUP BY ALL
    ) AS heirs
        ON heirs.chain = sizes.chain
        AND heirs.token_address = sizes.token_address
        AND heirs.timestamp = moments.timestamp
        AND heirs.previous_cluster_id = sizes.cluster_id
    WHERE heirs.has_heir IS NOT TRUE
)
SELECT
    *,
    shared_members / (members + previous_members - shared_members) AS overlap,
    CASE
        WHEN previous_timestamp IS NULL THEN 'first'
        WHEN merged_from IS NOT NULL THEN 'merged'
        WHEN split_from IS NOT NULL THEN 'split'
        WHEN previous_cluster_id IS NULL THEN 'born'
        WHEN members > previous_members THEN 'grew'
        WHEN members < previous_members THEN 'shrank'
        WHEN members = shared_members THEN 'same'
        ELSE 'changed'
    END AS event
FROM living
UNION ALL BY NAME
SELECT *, 'died' AS event
FROM dead;
