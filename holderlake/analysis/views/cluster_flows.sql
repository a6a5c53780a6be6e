-- Transfers between clusters, exchanges and other wallets on each token's map at t, summed by token that was sent.
-- Transfers within a cluster are included. Transfers with an exchange are those of the map's time nodes (windows of
-- time in which several holders used it): only a part of all.
-- Example: FROM cluster_flows('2026-06-30') WHERE to_kind = 'exchange' ORDER BY total_value DESC LIMIT 5;
CREATE OR REPLACE MACRO cluster_flows(t) AS TABLE
WITH moved AS (FROM grouped_transfers_as_of(t)),
members AS MATERIALIZED (FROM cluster_members_as_of(t)),
marked AS (FROM special_addresses_as_of(t) WHERE kind IN ('cex', 'dex')),
services AS (
    SELECT DISTINCT chain, token_address, address FROM map_nodes_as_of(t) WHERE kind = 'time'
),
sides AS (
    SELECT
        moved.*,
        from_members.cluster_id AS from_cluster_id,
        to_members.cluster_id AS to_cluster_id,
        CASE
            WHEN from_members.cluster_id IS NOT NULL THEN NULL
            WHEN from_exchange.address IS NOT NULL OR from_service.address IS NOT NULL
            THEN coalesce(from_exchange.label, moved.from_address)
        END AS from_exchange,
        CASE
            WHEN to_members.cluster_id IS NOT NULL THEN NULL
            WHEN to_exchange.address IS NOT NULL OR to_service.address IS NOT NULL
            THEN coalesce(to_exchange.label, moved.to_address)
        END AS to_exchange
    FROM moved
    LEFT JOIN members AS from_members
        ON from_members.chain = moved.chain
        AND from_members.token_address = moved.token_address
        AND from_members.address = moved.from_address
    LEFT JOIN members AS to_members
        ON to_members.chain = moved.chain
        AND to_members.token_address = moved.token_address
        AND to_members.address = moved.to_address
    LEFT JOIN marked AS from_exchange
        ON from_exchange.chain = moved.chain AND from_exchange.address = moved.from_address
    LEFT JOIN marked AS to_exchange
        ON to_exchange.chain = moved.chain AND to_exchange.address = moved.to_address
    LEFT JOIN services AS from_service
        ON from_service.chain = moved.chain
        AND from_service.token_address = moved.token_address
        AND from_service.address = moved.from_address
    LEFT JOIN services AS to_service
        ON to_service.chain = moved.chain
        AND to_service.token_address = moved.token_address
        AND to_service.address = moved.to_address
),
summed AS (
    SELECT
        chain,
        token_address,
        timestamp,
        requested,
        days_earlier,
        is_outdated,
        CASE
            WHEN from_cluster_id IS NOT NULL THEN 'cluster'
            WHEN from_exchange IS NOT NULL THEN 'exchange'
            ELSE 'wallet'
        END AS from_kind,
        from_cluster_id,
        from_exchange,
        CASE
            WHEN to_cluster_id IS NOT NULL THEN 'cluster'
            WHEN to_exchange IS NOT NULL THEN 'exchange'
            ELSE 'wallet'
        END AS to_kind,
        to_cluster_id,
        to_exchange,
        transfer_chain,
        transfer_token,
        exact_total(total_value, total_value_exact) AS exact,
        CAST(sum(total_transfers) AS BIGINT) AS total_transfers,
        count(DISTINCT from_address) AS senders,
        count(DISTINCT to_address) AS receivers,
        min(first_date) AS first_date,
        max(last_date) AS last_date
    FROM sides
    GROUP BY ALL
)
SELECT
    * EXCLUDE (exact, requested, days_earlier, is_outdated),
    as_amount(exact) AS total_value,
    as_exact(exact) AS total_value_exact,
    requested,
    days_earlier,
    is_outdated
FROM summed;

-- Deposits into and withdrawals from each exchange on each token's map at t, by token that was sent and by cluster.
-- They cover only the windows of time in which several holders used the exchange, see cluster_flows.
-- Example: FROM exchange_flows('2026-06-30') ORDER BY deposits DESC, exchange LIMIT 5;
CREATE OR REPLACE MACRO exchange_flows(t) AS TABLE
WITH flows AS (FROM cluster_flows(t)),
sides AS (
    SELECT
        chain, token_address, timestamp, requested, days_earlier, is_outdated, to_exchange AS exchange, from_cluster_id AS cluster_id, transfer_chain,
        transfer_token, exact_amount(total_value, total_value_exact) AS deposits, '0' AS withdrawals,
        total_transfers AS deposit_count, 0 AS withdrawal_count, first_date, last_date
    FROM flows
    WHERE to_kind = 'exchange'
    UNION ALL
    SELECT
        chain, token_address, timestamp, requested, days_earlier, is_outdated, from_exchange, to_cluster_id, transfer_chain,
        transfer_token, '0', exact_amount(total_value, total_value_exact), 0, total_transfers, first_date, last_date
    FROM flows
    WHERE from_kind = 'exchange'
),
summed AS (
    SELECT
        chain,
        token_address,
        timestamp,
        requested,
        days_earlier,
        is_outdated,
        exchange,
        cluster_id,
        transfer_chain,
        transfer_token,
        amount_text(sum(amount_units(deposits))) AS deposits,
        amount_text(sum(amount_units(withdrawals))) AS withdrawals,
        amount_text(sum(amount_units(deposits)) - sum(amount_units(withdrawals))) AS net,
        CAST(sum(deposit_count) AS BIGINT) AS deposit_count,
        CAST(sum(withdrawal_count) AS BIGINT) AS withdrawal_count,
        min(first_date) AS first_date,
        max(last_date) AS last_date
    FROM sides
    GROUP BY ALL
)
SELECT
    chain,
    token_address,
    timestamp,
    exchange,
    cluster_id,
    transfer_chain,
    transfer_token,
    as_amount(deposits) AS deposits,
    as_amount(withdrawals) AS withdrawals,
    as_amount(net) AS net,
    as_exact(deposits) AS deposits_exact,
    as_exact(withdrawals) AS withdrawals_exact,
    as_exact(net) AS net_exact,
    deposit_count,
    withdrawal_count,
    first_date,
    last_date,
    requested,
    days_earlier,
    is_outdated
FROM summed;
