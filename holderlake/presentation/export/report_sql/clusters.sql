-- The same clusters through time, from the first map of the period on.
SELECT
    timestamp,
    cluster_id,
    CASE WHEN previous_timestamp >= $since THEN previous_timestamp END AS previous_timestamp,
    CASE WHEN previous_timestamp >= $since THEN previous_cluster_id END AS previous_cluster_id,
    event,
    members,
    previous_members,
    overlap,
    share
FROM cluster_lineage
WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
ORDER BY timestamp, cluster_id NULLS LAST, previous_cluster_id;
