-- Holders that entered or left the list between t1 and t2, and those whose amount grew or shrank: a comparison of each
-- token's newest list at or before t1 with its newest one at or before t2. With each_list := true, each list after t1
-- and up to t2 is compared with the one before, so holders that came and left in between are there too. A list has an
-- end: an address that a full list lacks may still hold. Then its amount and the change are null, and
-- amount_before_at_most or amount_after_at_most is the most that it can have; a complete list proves an amount of 0.
-- Lists of different limits are compared as far as the shorter one goes, see depth: an address beyond it in the longer
-- list counts as not listed, but its amount is known. with_same := true adds the holders of the same amount (same).
-- Tokens without a list at or before t1, or without a later one up to t2, are left out. balances_at has all holders of
-- a token of your store, for exact changes without lists.
-- Example: FROM holder_changes('2025-01-01', '2026-01-01') WHERE change = 'entered' ORDER BY share_after DESC;
CREATE OR REPLACE MACRO holder_changes(t1, t2, each_list := false, with_same := false) AS TABLE
WITH spans AS NOT MATERIALIZED (
    SELECT
        chain,
        token_address,
        max(timestamp) FILTER (timestamp <= instant(t1)) AS from_timestamp,
        max(timestamp) AS to_timestamp
    FROM list_instants
    WHERE timestamp <= end_of_period(t1, t2) AND NOT each_list
    GROUP BY ALL
    HAVING from_timestamp < to_timestamp
    UNION ALL
    SELECT chain, token_address, previous_timestamp, timestamp
    FROM list_instants
    WHERE each_list
        AND timestamp > instant(t1)
        AND timestamp <= end_of_period(t1, t2)
        AND previous_timestamp IS NOT NULL
),
ends AS NOT MATERIALIZED (
    SELECT
        spans.*,
        unnest([from_timestamp, to_timestamp]) AS timestamp,
        unnest([false, true]) AS is_after
    FROM spans
),
pairs AS NOT MATERIALIZED (
    SELECT
        ends.chain,
        ends.token_address,
        ends.from_timestamp,
        ends.to_timestamp,
        listed.address,
        coalesce(max(label) FILTER (is_after), max(label)) AS label,
        coalesce(bool_or(is_cex) FILTER (is_after), bool_or(is_cex)) AS is_cex,
        coalesce(bool_or(is_dex) FILTER (is_after), bool_or(is_dex)) AS is_dex,
        coalesce(bool_or(is_contract) FILTER (is_after), bool_or(is_contract)) AS is_contract,
        bool_or(NOT is_after) AS was_listed,
        bool_or(is_after) AS is_listed,
        max(rank) FILTER (NOT is_after) AS rank_before,
        max(rank) FILTER (is_after) AS rank_after,
        max(amount) FILTER (NOT is_after) AS amount_before,
        max(amount) FILTER (is_after) AS amount_after,
        max(amount_exact) FILTER (NOT is_after) AS amount_before_exact,
        max(amount_exact) FILTER (is_after) AS amount_after_exact,
        max(share) FILTER (NOT is_after) AS share_before,
        max(share) FILTER (is_after) AS share_after
    FROM listed_holders AS listed
    JOIN ends
        ON ends.chain = listed.chain
        AND ends.token_address = listed.token_address
        AND ends.timestamp = listed.timestamp
    GROUP BY ALL
),
known AS (
    SELECT
        pairs.* REPLACE (
            CASE WHEN was_listed THEN pairs.amount_before WHEN earlier.is_complete THEN 0 END AS amount_before,
            CASE WHEN is_listed THEN pairs.amount_after WHEN later.is_complete THEN 0 END AS amount_after,
            CASE WHEN was_listed THEN pairs.share_before WHEN earlier.is_complete THEN 0 END AS share_before,
            CASE WHEN is_listed THEN pairs.share_after WHEN later.is_complete THEN 0 END AS share_after
        ),
        CASE WHEN NOT was_listed THEN exact_amount(earlier.unlisted_at_most, earlier.unlisted_at_most_exact) END
            AS amount_before_at_most,
        CASE WHEN NOT is_listed THEN exact_amount(later.unlisted_at_most, later.unlisted_at_most_exact) END
            AS amount_after_at_most,
        least(earlier.depth, later.depth) AS depth
    FROM pairs
    JOIN holder_lists AS earlier
        ON earlier.chain = pairs.chain
        AND earlier.token_address = pairs.token_address
        AND earlier.timestamp = pairs.from_timestamp
    JOIN holder_lists AS later
        ON later.chain = pairs.chain
        AND later.token_address = pairs.token_address
        AND later.timestamp = pairs.to_timestamp
),
changed AS (
    SELECT
        *,
        CASE
            WHEN amount_before_exact IS NULL AND amount_after_exact IS NULL
            THEN exact_amount(amount_after - amount_before, NULL)
            ELSE amount_text(
                amount_units(exact_amount(amount_after, amount_after_exact))
                - amount_units(exact_amount(amount_before, amount_before_exact))
            )
        END AS exact_change
    FROM known
)
SELECT
    chain,
    token_address,
    from_timestamp,
    to_timestamp,
    address,
    label,
    is_cex,
    is_dex,
    is_contract,
    CASE
        WHEN NOT was_listed OR rank_before > depth THEN 'entered'
        WHEN NOT is_listed OR rank_after > depth THEN 'left'
        WHEN exact_change = '0' THEN 'same'
        WHEN starts_with(exact_change, '-') THEN 'shrank'
        ELSE 'grew'
    END AS change,
    as_amount(exact_change) AS amount_change,
    as_exact(exact_change) AS amount_change_exact,
    amount_before,
    amount_after,
    amount_before_exact,
    amount_after_exact,
    amount_before_at_most,
    amount_after_at_most,
    share_before,
    share_after,
    rank_before,
    rank_after,
    depth,
    CASE WHEN NOT each_list THEN instant(t1) END AS requested_from,
    CASE WHEN NOT each_list THEN as_of_distance(t1, from_timestamp) END AS from_days_earlier,
    CASE WHEN NOT each_list THEN instant(t2) END AS requested_to,
    CASE WHEN NOT each_list THEN as_of_distance(t2, to_timestamp) END AS to_days_earlier,
    NOT each_list
    AND (from_timestamp < instant(t1) - as_of_warning() OR to_timestamp < instant(t2) - as_of_warning()) AS is_outdated
FROM changed
WHERE
    (
        with_same
        OR NOT was_listed
        OR NOT is_listed
        OR exact_change <> '0'
        OR coalesce(greatest(rank_before, rank_after) > depth, false)
    )
    AND coalesce(least(rank_before, rank_after) <= depth, true);
