-- Each query returns the rows that break a rule; a rule holds when its query returns no row.
-- A `-- rule:` line begins a query. Tables hold the partitions of the run.

-- rule: shares_are_parts_of_the_supply on holders
SELECT chain, as_of, token_address, 'address ' || address AS what, share AS found
FROM holders
WHERE NOT share BETWEEN 0 AND 1
UNION ALL
SELECT chain, as_of, token_address, 'sum of shares', sum(share)
FROM holders
GROUP BY chain, as_of, token_address
HAVING sum(share) > 1 + 1e-9;

-- rule: ranks_are_dense on holders
SELECT chain, as_of, token_address, 'ranks from ' || min(rank) || ' to ' || max(rank) AS what, count(*)::DOUBLE AS found
FROM holders
GROUP BY chain, as_of, token_address
HAVING count(rank) < count(*) OR min(rank) <> 1 OR max(rank) <> count(*) OR count(DISTINCT rank) <> count(*);

-- rule: holders_are_listed_once on holders
SELECT chain, as_of, token_address, 'address ' || address AS what, count(*)::DOUBLE AS found
FROM holders
GROUP BY chain, as_of, token_address, address
HAVING count(*) > 1;

-- rule: amounts_and_counts_are_not_negative on holders
SELECT chain, as_of, token_address, 'address ' || address AS what, least(amount::DOUBLE, degree) AS found
FROM holders
WHERE least(amount::DOUBLE, degree, inward_relations, outward_relations) < 0;

-- rule: amounts_fall_with_rank on holders
SELECT chain, as_of, token_address, 'rank ' || rank AS what, amount::DOUBLE AS found
FROM (
    SELECT *, lag(amount) OVER (PARTITION BY chain, as_of, token_address ORDER BY rank) AS amount_before
    FROM holders
)
WHERE amount > amount_before;

-- rule: supply_shares_are_parts on maps
SELECT chain, as_of, token_address, measure AS what, share AS found
FROM (
    UNPIVOT (SELECT chain, as_of, token_address, cexs, dexs, contracts, fresh_wallets, top_10_adjusted, bundles FROM maps)
    ON cexs, dexs, contracts, fresh_wallets, top_10_adjusted, bundles
    INTO NAME measure VALUE share
)
WHERE NOT share BETWEEN 0 AND 1;

-- rule: scores_are_on_their_scale on maps
SELECT chain, as_of, token_address, 'service_score' AS what, service_score AS found
FROM maps
WHERE NOT service_score BETWEEN 0 AND 100;

-- rule: clusters_are_disjoint on cluster_members
SELECT chain, as_of, token_address, 'address ' || address AS what, count(*)::DOUBLE AS found
FROM cluster_members
GROUP BY chain, as_of, token_address, address
HAVING count(*) > 1;

-- rule: cluster_holders_are_top_holders on cluster_members
SELECT chain, as_of, token_address, 'address ' || address AS what, cluster_id::DOUBLE AS found
FROM cluster_members
ANTI JOIN (SELECT * FROM map_nodes WHERE kind = 'top_holder') USING (chain, as_of, token_address, address)
WHERE kind = 'holder';

-- rule: clusters_have_two_holders_or_more on clusters
SELECT clusters.chain, clusters.as_of, clusters.token_address, 'cluster ' || clusters.cluster_id AS what,
    clusters.holder_count::DOUBLE AS found
FROM clusters
LEFT JOIN (
    SELECT chain, as_of, token_address, cluster_id, count(*) FILTER (kind = 'holder') AS holders
    FROM cluster_members
    GROUP BY chain, as_of, token_address, cluster_id
) AS members USING (chain, as_of, token_address, cluster_id)
WHERE clusters.holder_count < 2 OR clusters.holder_count IS DISTINCT FROM members.holders;

-- rule: nodes_are_listed_once on map_nodes
SELECT chain, as_of, token_address, kind || ' ' || address AS what, count(*)::DOUBLE AS found
FROM map_nodes
GROUP BY chain, as_of, token_address, kind, address, time_node
HAVING count(*) > 1;

-- rule: node_shares_are_parts_of_the_supply on map_nodes
SELECT chain, as_of, token_address, 'address ' || address AS what, share AS found
FROM map_nodes
WHERE NOT share BETWEEN 0 AND 1;

-- rule: cluster_shares_are_parts_of_the_supply on clusters
SELECT chain, as_of, token_address, 'cluster ' || cluster_id AS what, share AS found
FROM clusters
WHERE NOT share BETWEEN 0 AND 1;

-- rule: relationships_are_listed_once on grouped_transfers
SELECT chain, as_of, token_address, from_address || ' to ' || to_address AS what, count(*)::DOUBLE AS found
FROM grouped_transfers
WHERE rel_type = 'GROUPED_TRANSFER'
GROUP BY chain, as_of, token_address, from_address, to_address, transfer_chain, transfer_token, time_node
HAVING count(*) > 1;

-- rule: relationships_have_two_ends on grouped_transfers
SELECT chain, as_of, token_address, from_address || ' to ' || to_address AS what, total_transfers::DOUBLE AS found
FROM grouped_transfers
WHERE from_address = to_address OR first_date > last_date OR total_transfers < 1;

-- rule: rows_are_fetched_after_their_instant on holders
SELECT chain, as_of, token_address, 'hours before its instant' AS what,
    date_diff('second', min(fetched_at), as_of) / 3600.0 AS found
FROM holders
WHERE fetched_at < as_of
GROUP BY chain, as_of, token_address;

-- rule: rows_are_fetched_after_their_instant on maps
SELECT chain, as_of, token_address, 'hours before its instant' AS what,
    date_diff('second', min(fetched_at), as_of) / 3600.0 AS found
FROM maps
WHERE fetched_at < as_of
GROUP BY chain, as_of, token_address;
