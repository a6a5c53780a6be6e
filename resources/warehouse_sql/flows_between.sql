-- What two addresses sent each other, in both directions, by token. Maps and named address sets hold sums from the first
-- transfer on, so of all that is known the row with most transfers is taken; timestamp is the partition it stands in.
-- Hexadecimal addresses may be written in any case. Relationships within a time node cover one window: left out.
-- Example: FROM flows_between('0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222');
CREATE OR REPLACE MACRO flows_between(a, b) AS TABLE
WITH pair AS (
    SELECT
        CASE WHEN starts_with(lower(a), '0x') THEN lower(a) ELSE a END AS one,
        CASE WHEN starts_with(lower(b), '0x') THEN lower(b) ELSE b END AS other
),
known AS (
    SELECT
        timestamp, from_address, to_address, rel_type, transfer_chain, transfer_token,
        total_value, total_value_exact, total_transfers, first_date, last_date
    FROM grouped_transfers
    WHERE time_node IS NULL
    UNION ALL
    SELECT
        timestamp, from_address, to_address, rel_type, transfer_chain, transfer_token,
        total_value, total_value_exact, total_transfers, first_date, last_date
    FROM subgraph_transfers
)
SELECT known.*
FROM known
JOIN pair
    ON (known.from_address = pair.one AND known.to_address = pair.other)
    OR (known.from_address = pair.other AND known.to_address = pair.one)
QUALIFY row_number() OVER (
    PARTITION BY from_address, to_address, rel_type, transfer_chain, transfer_token
    ORDER BY total_transfers DESC, timestamp DESC
) = 1;
