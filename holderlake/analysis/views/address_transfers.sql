-- Transfers of an address, summed by counterparty and token. Maps and address sets contain sums since the first
-- transfer, so the row with most transfers counts. Only transfers that a map or an address set shows are known.
-- Transfers of a time node cover one window of time with an exchange: such windows are added up, each counted once, and
-- are a part of all transfers.
-- Example: FROM address_transfers('0x1111111111111111111111111111111111111111') ORDER BY last_date DESC;
CREATE OR REPLACE MACRO address_transfers(of_address) AS TABLE
WITH transfers AS (
    SELECT
        timestamp, from_address, to_address, rel_type, transfer_chain, transfer_token, time_node IS NOT NULL AS is_window,
        total_value, total_value_exact, total_transfers, first_date, last_date
    FROM grouped_transfers
    WHERE from_address = plain_address(of_address) OR to_address = plain_address(of_address)
    UNION ALL
    SELECT
        timestamp, from_address, to_address, rel_type, transfer_chain, transfer_token, false,
        total_value, total_value_exact, total_transfers, first_date, last_date
    FROM subgraph_transfers
    WHERE from_address = plain_address(of_address) OR to_address = plain_address(of_address)
),
-- the row with most transfers of a relationship, and of each of its windows
fullest AS (
    SELECT *
    FROM transfers
    QUALIFY row_number() OVER (
        PARTITION BY
            from_address, to_address, rel_type, transfer_chain, transfer_token, is_window,
            CASE WHEN is_window THEN first_date END
        ORDER BY total_transfers DESC, timestamp DESC
    ) = 1
),
summed AS (
    SELECT
        from_address, to_address, rel_type, transfer_chain, transfer_token, is_window,
        max(timestamp) AS timestamp,
        exact_total(total_value, total_value_exact) AS exact,
        sum(total_transfers)::BIGINT AS total_transfers,
        min(first_date) AS first_date,
        max(last_date) AS last_date
    FROM fullest
    GROUP BY ALL
)
SELECT
    CASE WHEN from_address = plain_address(of_address) THEN 'sent' ELSE 'received' END AS direction,
    CASE WHEN from_address = plain_address(of_address) THEN to_address ELSE from_address END AS counterparty,
    transfer_chain,
    transfer_token,
    as_amount(exact) AS total_value,
    as_exact(exact) AS total_value_exact,
    total_transfers,
    first_date,
    last_date,
    is_window,
    rel_type,
    from_address,
    to_address,
    timestamp
FROM summed
UNION ALL BY NAME
SELECT rel_type FROM (SELECT address_error(of_address, EXISTS (FROM summed)) AS rel_type) WHERE rel_type = '';
