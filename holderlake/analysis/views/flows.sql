-- Transfers of a token (its address or symbol) in your store, summed by period (each: hour, day, week, month, …), between clusters,
-- exchanges, contracts and others. Clusters are those of the token's newest map on the chain, exchanges and contracts
-- those that a row or label names at the time of the transfer (special_periods). Mints come from, and burns go to,
-- addresses without an owner. Transfers within a group are included. since and until, both included, limit the time, and make long histories
-- fast: flows('FERN', 'day', since := '2026-01-01', until := '2026-01-31').
-- Example: SELECT period, from_kind, to_kind, sum(transfers) AS transfers FROM flows((SELECT min(token_address) FROM stored_tokens), 'month') GROUP BY ALL ORDER BY ALL LIMIT 5;
CREATE OR REPLACE MACRO flows(of_token, each, since := NULL, until := NULL) AS TABLE
WITH token AS MATERIALIZED (
    SELECT
        CASE
            WHEN since IS NULL OR until IS NULL THEN token_of(of_token)
            WHEN end_of_period(since, until) IS NOT NULL THEN token_of(of_token)
        END AS address
),
groups AS MATERIALIZED (
    SELECT
        chain,
        address,
        CASE WHEN kind IN ('cex', 'dex') THEN 'exchange' ELSE kind END AS kind,
        NULL::BIGINT AS cluster_id,
        label,
        coalesce(valid_from, '-infinity'::TIMESTAMP) AS valid_from,
        coalesce(valid_to + INTERVAL 1 SECOND, 'infinity'::TIMESTAMP) AS valid_until
    FROM special_periods AS special
    ANTI JOIN latest_cluster_members AS members
        ON members.chain = special.chain
        AND members.address = special.address
        AND members.token_address = (SELECT address FROM token)
    UNION ALL
    SELECT chain, address, 'cluster', cluster_id, NULL, '-infinity'::TIMESTAMP, 'infinity'::TIMESTAMP
    FROM latest_cluster_members
    WHERE token_address = (SELECT address FROM token)
),
summed AS (
    SELECT
        moved.chain,
        moved.token_address,
        date_trunc(each, moved.block_time) AS period,
        CASE senders.kind WHEN 'burn' THEN 'mint' ELSE coalesce(senders.kind, 'other') END AS from_kind,
        senders.cluster_id AS from_cluster_id,
        senders.label AS from_label,
        coalesce(receivers.kind, 'other') AS to_kind,
        receivers.cluster_id AS to_cluster_id,
        receivers.label AS to_label,
        count(*) AS transfers,
        count(DISTINCT moved.from_address) AS senders,
        count(DISTINCT moved.to_address) AS receivers,
        exact_total(moved.amount, moved.amount_exact) AS exact
    FROM transfers AS moved
    LEFT JOIN groups AS senders
        ON senders.chain = moved.chain
        AND senders.address = moved.from_address
        AND moved.block_time >= senders.valid_from
        AND moved.block_time < senders.valid_until
    LEFT JOIN groups AS receivers
        ON receivers.chain = moved.chain
        AND receivers.address = moved.to_address
        AND moved.block_time >= receivers.valid_from
        AND moved.block_time < receivers.valid_until
    WHERE moved.token_address = (SELECT address FROM token)
        AND (since IS NULL OR moved.block_time >= start_of_period(since))
        AND (until IS NULL OR moved.block_time <= instant(until))
    GROUP BY ALL
)
SELECT * EXCLUDE (exact), as_amount(exact) AS amount, as_exact(exact) AS amount_exact
FROM summed
UNION ALL BY NAME
SELECT address AS token_address FROM token WHERE address = ''; -- no row; a store without transfers checks token and time too
