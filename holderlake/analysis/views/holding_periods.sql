-- Periods in which an address was in a token's list of holders without a gap, one row a period. Where lists have
-- different limits, only the ranks that all lists of the token have count, see depth. If left_at_most is not 0, the list
-- at left_at was full: the address may still have held that amount. basis says how long the lists are. holding_times has
-- the times of all holders of a token of your store, and balance_history every change of a balance.
-- Example: FROM holding_periods WHERE left_at IS NULL AND NOT from_the_start ORDER BY days DESC, token_address, address LIMIT 5;
CREATE OR REPLACE VIEW holding_periods AS
WITH lists AS NOT MATERIALIZED (
    SELECT
        * REPLACE ('lists of at most ' || max(holder_limit) OVER (PARTITION BY chain, token_address) AS basis),
        row_number() OVER series AS place,
        lead(timestamp) OVER series AS next_list,
        lead(coalesce(unlisted_at_most_exact, CAST(unlisted_at_most AS VARCHAR)) IS NOT NULL) OVER series AS next_has_end,
        min(depth) OVER (PARTITION BY chain, token_address) AS least_depth
    FROM holder_lists
    WHERE holders_listed IS NOT NULL
    WINDOW series AS (PARTITION BY chain, token_address ORDER BY timestamp)
),
placed AS (
    SELECT
        listed.*,
        lists.place,
        lists.next_list AS next_timestamp,
        CASE WHEN lists.next_has_end THEN coalesce(exact_amount(edge.amount, edge.amount_exact), '0') END AS next_at_most,
        lists.least_depth,
        lists.basis,
        lists.place - row_number() OVER (
            PARTITION BY listed.chain, listed.token_address, listed.address ORDER BY listed.timestamp
        ) AS stretch
    FROM listed_holders AS listed
    JOIN lists USING (chain, token_address, timestamp)
    -- the last holder of the next list that counts
    LEFT JOIN listed_holders AS edge
        ON edge.chain = lists.chain
        AND edge.token_address = lists.token_address
        AND edge.timestamp = lists.next_list
        AND edge.rank = lists.least_depth
    WHERE coalesce(listed.rank <= lists.least_depth, true)
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
    arg_max_null(next_at_most, timestamp) AS left_at_most,
    date_diff('day', min(timestamp), max(timestamp)) AS days,
    count(*) AS partitions,
    min(place) = 1 AS from_the_start,
    any_value(least_depth) AS depth,
    any_value(basis) AS basis,
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
