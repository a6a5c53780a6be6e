-- Alert when a cluster's share of the supply (0 to 1) rises above the threshold: no cluster of the map before that has a
-- common member had such a share. The subject is the cluster's largest holder, because numbers of clusters change.
/*
table = "clusters"
sentence = "a cluster around {subject} holds {share}% of the supply (more than {limit}%)"
unit = "share of the supply"
options.threshold = 0.1
*/
WITH large AS (
    SELECT clusters.*, moments.previous_timestamp
    FROM clusters
    JOIN map_series AS moments USING (chain, token_address, timestamp)
    SEMI JOIN watched USING (chain, token_address)
    WHERE timestamp BETWEEN $since AND $until AND clusters.share > $threshold
),
members AS (
    SELECT
        large.chain,
        large.token_address,
        large.timestamp,
        large.cluster_id,
        cluster_members.address,
        map_nodes.rank,
        map_nodes.share,
        map_nodes.label
    FROM large
    JOIN cluster_members USING (chain, token_address, timestamp, cluster_id)
    LEFT JOIN map_nodes
        ON map_nodes.chain = large.chain
        AND map_nodes.token_address = large.token_address
        AND map_nodes.timestamp = large.timestamp
        AND map_nodes.address = cluster_members.address
        AND map_nodes.kind = 'top_holder'
),
before AS (
    SELECT kin.chain, kin.token_address, kin.timestamp, kin.cluster_id, max(earlier.share) AS share
    FROM cluster_kinship AS kin
    JOIN clusters AS earlier
        ON earlier.chain = kin.chain
        AND earlier.token_address = kin.token_address
        AND earlier.timestamp = kin.previous_timestamp
        AND earlier.cluster_id = kin.previous_cluster_id
    WHERE kin.timestamp BETWEEN $since AND $until
    GROUP BY ALL
),
largest AS (
    SELECT
        chain,
        token_address,
        timestamp,
        cluster_id,
        arg_min(address, (coalesce(rank, 1_000_000), address)) AS subject,
        list(
            {'address': address, 'rank': rank, 'share': share, 'label': label}
            ORDER BY rank NULLS LAST, address
        )[:10] AS members
    FROM members
    GROUP BY ALL
)
SELECT
    large.chain,
    large.token_address,
    large.timestamp,
    largest.subject,
    CAST(large.timestamp AS VARCHAR) AS occasion,
    large.share AS measured,
    to_json({
        'cluster_id': large.cluster_id,
        'holder_count': large.holder_count,
        'amount': exact_amount(large.amount, large.amount_exact),
        'share_before': before.share,
        'previous_timestamp': large.previous_timestamp,
        'largest_members': largest.members
    }) AS evidence
FROM large
JOIN largest USING (chain, token_address, timestamp, cluster_id)
LEFT JOIN before USING (chain, token_address, timestamp, cluster_id)
WHERE coalesce(before.share <= $threshold, true)
ORDER BY large.timestamp, large.chain, large.token_address, large.cluster_id;
