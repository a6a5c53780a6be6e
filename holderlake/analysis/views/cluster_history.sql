-- Each cluster of one token (its address or symbol) through time, on every chain that has the token. A line is a cluster
-- that cluster_lineage continues from map to map.
-- Example: SELECT timestamp, share, members FROM cluster_history((SELECT min(token_address) FROM latest_clusters)) ORDER BY lineage, timestamp;
CREATE OR REPLACE MACRO cluster_history(of_token) AS TABLE
WITH RECURSIVE living AS MATERIALIZED (
    FROM cluster_lineage
    WHERE token_address = plain_address(of_token) AND cluster_id IS NOT NULL
    UNION ALL
    -- a branch of its own, because DuckDB prunes by a constant much better; for an address it leaves this branch out
    FROM cluster_lineage
    WHERE is_symbol(of_token) AND token_address = token_of(of_token) AND token_address <> of_token
        AND cluster_id IS NOT NULL
),
line AS (
    SELECT *, timestamp AS since, cluster_id AS first_cluster_id
    FROM living
    WHERE previous_cluster_id IS NULL
    UNION ALL
    SELECT living.*, line.since, line.first_cluster_id
    FROM line
    JOIN living
        ON living.chain = line.chain
        AND living.previous_timestamp = line.timestamp
        AND living.previous_cluster_id = line.cluster_id
)
SELECT
    chain,
    token_address,
    strftime(since, '%Y-%m-%d %H:%M:%S') || '/' || first_cluster_id AS lineage,
    since,
    timestamp,
    cluster_id,
    members,
    share,
    share - lag(share) OVER (PARTITION BY chain, since, first_cluster_id ORDER BY timestamp) AS share_change,
    event,
    merged_from,
    split_from
FROM line
WHERE token_address = token_of(of_token);
