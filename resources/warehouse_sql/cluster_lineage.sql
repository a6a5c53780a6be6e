-- The same cluster through time: each cluster beside the one on the token's map before that shares most members.
-- overlap is shared members over all members of both. event: first (no map before), born (shares nobody), grew, shrank,
-- same (the same members), changed (as many, but others), died (a row of the next map, without cluster_id: none of its
-- clusters shares a member).
-- Example: FROM cluster_lineage WHERE event IN ('born', 'died') ORDER BY chain, token_address, timestamp;
CREATE OR REPLACE VIEW cluster_lineage AS
WITH moments AS (
    SELECT
        chain,
        token_address,
        timestamp,
        lag(timestamp) OVER (PARTITION BY chain, token_address ORDER BY timestamp) AS previous_timestamp
    FROM maps
),
sizes AS (
    SELECT chain, token_address, timestamp, cluster_id, count(*) AS members
    FROM cluster_members
    GROUP BY chain, token_address, timestamp, cluster_id
),
shared AS (
    SELECT
        present.chain,
        present.token_address,
        present.timestamp,
        present.cluster_id,
        earlier.cluster_id AS previous_cluster_id,
        count(*) AS shared_members
    FROM cluster_members AS present
    JOIN moments
        ON moments.chain = present.chain
        AND moments.token_address = present.token_address
        AND moments.timestamp = present.timestamp
    JOIN cluster_members AS earlier
        ON earlier.chain = present.chain
        AND earlier.token_address = present.token_address
        AND earlier.timestamp = moments.previous_timestamp
        AND earlier.address = present.address
    GROUP BY present.chain, present.token_address, present.timestamp, present.cluster_id, earlier.cluster_id
),
closest AS (
    SELECT *
    FROM shared
    QUALIFY row_number() OVER (
        PARTITION BY chain, token_address, timestamp, cluster_id
        ORDER BY shared_members DESC, previous_cluster_id
    ) = 1
),
living AS (
    SELECT
        clusters.chain,
        clusters.token_address,
        clusters.timestamp,
        clusters.cluster_id,
        moments.previous_timestamp,
        closest.previous_cluster_id,
        sizes.members,
        earlier.members AS previous_members,
        closest.shared_members,
        clusters.share
    FROM clusters
    JOIN moments USING (chain, token_address, timestamp)
    JOIN sizes USING (chain, token_address, timestamp, cluster_id)
    LEFT JOIN closest USING (chain, token_address, timestamp, cluster_id)
    LEFT JOIN sizes AS earlier
        ON earlier.chain = clusters.chain
        AND earlier.token_address = clusters.token_address
        AND earlier.timestamp = moments.previous_timestamp
        AND earlier.cluster_id = closest.previous_cluster_id
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
    ANTI JOIN shared
        ON shared.chain = sizes.chain
        AND shared.token_address = sizes.token_address
        AND shared.timestamp = moments.timestamp
        AND shared.previous_cluster_id = sizes.cluster_id
)
SELECT
    *,
    shared_members / (members + previous_members - shared_members) AS overlap,
    CASE
        WHEN previous_timestamp IS NULL THEN 'first'
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
