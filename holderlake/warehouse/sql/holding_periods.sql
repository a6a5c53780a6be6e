-- Periods in which an address was in a token's list of holders without a gap, one row a period.
-- Example: FROM holding_periods WHERE left_at IS NULL AND NOT from_the_start ORDER BY days DESC, token_address, address LIMIT 5;
CREATE OR REPLACE VIEW holding_periods AS
WITH placed AS (
    SELECT
        holders.chain,
        holders.token_address,
        holders.address,
        holders.timestamp,
        holders.rank,
        holders.share,
        holders.amount,
        holders.amount_exact,
        holders.label,
        holders.fetched_at,
        partitions.place,
        partitions.next_timestamp,
        partitions.place - row_number() OVER (
            PARTITION BY holders.chain, holders.token_address, holders.address ORDER BY holders.timestamp
        ) AS stretch
    FROM holders
    JOIN holder_partitions AS partitions USING (chain, token_address, timestamp)
)
SELECT
    chain,
    token_address,
    address,
    max_by(label, (fetched_at, timestamp)) AS label,
    row_number() OVER (PARTITION BY chain, token_address, address ORDER BY min(timestamp)) AS period,
    min(timestamp) AS entered_at,
    max(timestamp) AS last_seen_at,
    arg_max_null(next_timestamp, timestamp) AS left_at,
    date_diff('day', min(timestamp), max(timestamp)) AS days,
    count(*) AS partitions,
    min(place) = 1 AS from_the_start,
    min(rank) AS best_rank,
    max(share) AS largest_share,
    arg_min(share, timestamp) AS first_share,
    arg_max(share, timestamp) AS last_share,
    arg_min_null(amount, timestamp) AS first_amount,
    arg_max_null(amount, timestamp) AS last_amount,
    arg_min_null(amount_exact, timestamp) AS first_amount_exact,
    arg_max_null(amount_exact, timestamp) AS last_amount_exact
FROM placed
GROUP BY chain, token_address, address, stretch;
