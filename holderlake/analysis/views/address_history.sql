-- Every token that an address held through time, on all chains: one row for each token and instant at which the address
-- was in the list of holders, on the map or in a cluster. Its transfers are in address_transfers, its newest metadata
-- in latest_addresses. A list has an end: an address that is not listed may still hold, see holder_lists. Every change
-- of its balance of a token of your store is in balance_history.
-- Example: FROM address_history('0x1111111111111111111111111111111111111111') ORDER BY timestamp, chain, token_address;
CREATE OR REPLACE MACRO address_history(of_address) AS TABLE
WITH held AS (
    SELECT
        chain, token_address, timestamp, address, rank, amount, amount_exact, share, is_contract, is_cex, is_dex, entity_id,
        first_activity_date
    FROM holders
    WHERE address = plain_address(of_address)
),
shown AS (
    SELECT chain, token_address, timestamp, any_value(kind) AS role, any_value(is_cex) AS is_cex
    FROM map_nodes
    WHERE address = plain_address(of_address)
    GROUP BY ALL
),
clustered AS (
    SELECT
        member.chain, member.token_address, member.timestamp, member.cluster_id, clusters.share AS cluster_share,
        clusters.holder_count AS cluster_holders
    FROM cluster_members AS member
    JOIN clusters USING (chain, token_address, timestamp, cluster_id)
    WHERE member.address = plain_address(of_address)
),
called AS (
    SELECT chain, label FROM address_names WHERE address = plain_address(of_address)
)
SELECT
    chain,
    token_address,
    timestamp,
    held.address IS NOT NULL AS is_listed,
    held.rank,
    held.amount,
    held.amount_exact,
    held.share,
    as_amount(amount_text(
        amount_units(exact_amount(held.amount, held.amount_exact))
        - lag(amount_units(exact_amount(held.amount, held.amount_exact)))
            OVER (PARTITION BY chain, token_address ORDER BY timestamp)
    )) AS amount_change,
    shown.role,
    clustered.cluster_id,
    clustered.cluster_share,
    clustered.cluster_holders,
    called.label,
    coalesce(held.is_cex, shown.is_cex) AS is_cex,
    held.is_dex,
    held.is_contract,
    held.entity_id,
    held.first_activity_date
FROM held
FULL JOIN shown USING (chain, token_address, timestamp)
FULL JOIN clustered USING (chain, token_address, timestamp)
LEFT JOIN called USING (chain)
UNION ALL BY NAME
SELECT chain
FROM (SELECT address_error(of_address, EXISTS (FROM held) OR EXISTS (FROM shown) OR EXISTS (FROM clustered)) AS chain)
WHERE chain = '';
