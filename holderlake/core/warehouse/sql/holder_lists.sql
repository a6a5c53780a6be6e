-- The instants of each token's lists of holders in order, including those without rows. source is holders, or maps
-- where only the map was fetched, whose top holders are the list. holder_lists has the figures of each list.
-- Example: FROM list_instants WHERE next_timestamp IS NULL ORDER BY ALL;
CREATE OR REPLACE VIEW list_instants AS
SELECT
    *,
    row_number() OVER series AS place,
    lag(timestamp) OVER series AS previous_timestamp,
    lead(timestamp) OVER series AS next_timestamp
FROM (
    SELECT chain, subject AS token_address, timestamp, min(family) AS source
    FROM coverage
    WHERE family IN ('holders', 'maps')
    GROUP BY ALL
)
WINDOW series AS (PARTITION BY chain, token_address ORDER BY timestamp);

-- The holders in the lists of list_instants. All holders of a token of your store are in balances_at.
-- Example: SELECT timestamp, rank, address, share FROM listed_holders WHERE rank <= 3 ORDER BY ALL LIMIT 6;
CREATE OR REPLACE VIEW listed_holders AS
SELECT
    chain, timestamp, token_address, rank, address, amount, amount_exact, share, label, is_cex, is_dex, is_contract,
    holder_limit, fetched_at
FROM holders
UNION ALL
SELECT
    nodes.chain, nodes.timestamp, nodes.token_address, nodes.rank, nodes.address, nodes.amount, nodes.amount_exact,
    nodes.share, nodes.label, nodes.is_cex, nodes.is_dex, nodes.is_contract, maps.holder_limit, nodes.fetched_at
FROM map_nodes AS nodes
JOIN maps
    ON maps.chain = nodes.chain AND maps.token_address = nodes.token_address AND maps.timestamp = nodes.timestamp
-- not an anti join: DuckDB would not push a filter on one token to its other side
LEFT JOIN coverage AS listed
    ON listed.family = 'holders'
    AND listed.chain = nodes.chain
    AND listed.subject = nodes.token_address
    AND listed.timestamp = nodes.timestamp
WHERE nodes.kind = 'top_holder' AND listed.subject IS NULL;

-- Each token's lists of holders: how many the token has, and how far the list goes. A list has at most holder_limit
-- holders, those with the most. is_complete is true if it has all of them: fewer than the limit, and no row that could
-- not be read. Then holders_total is known. Of a full list you know that no other address has more than
-- unlisted_at_most: an address that it lacks may still hold. basis says this in words: 'all holders' if the list is
-- complete, or else 'list of at most 500', for example. A limit that was not recorded counts as the smallest, 80.
-- balances_at has all holders of a token of your store, and holder_counts their number.
-- Example: SELECT timestamp, holders_listed, holder_limit, is_complete, holders_total FROM holder_lists ORDER BY ALL LIMIT 5;
CREATE OR REPLACE VIEW holder_lists AS
WITH sizes AS NOT MATERIALIZED (
    SELECT
        chain,
        token_address,
        timestamp,
        count(*) AS holders_listed,
        coalesce(max(holder_limit), 80) AS holder_limit,
        count(rank) = count(*) AND max(rank) = count(*) AS is_dense,
        arg_max_null(amount, rank) AS least_amount,
        arg_max_null(amount_exact, rank) AS least_amount_exact,
        sum(share) FILTER (rank <= 10) AS top_10_share
    FROM listed_holders
    GROUP BY chain, token_address, timestamp
),
unread AS NOT MATERIALIZED (
    SELECT
        family_of(endpoint) AS source, chain, subject AS token_address, timestamp,
        bool_or(place IS NOT NULL AND code <> 'unreadable_value') AS lacks_rows,
        bool_or(code = 'no_holders') AS is_empty
    FROM failures
    GROUP BY ALL
),
joined AS (
    SELECT
        list.* EXCLUDE (place),
        coalesce(sizes.holders_listed, CASE WHEN unread.is_empty THEN 0 END) AS holders_listed,
        sizes.holder_limit,
        CASE
            WHEN coalesce(unread.lacks_rows, false) THEN false
            WHEN sizes.holders_listed IS NULL THEN coalesce(unread.is_empty, false)
            ELSE sizes.is_dense AND sizes.holders_listed < sizes.holder_limit
        END AS is_complete,
        sizes.is_dense AND NOT coalesce(unread.lacks_rows, false) AS has_end,
        sizes.* EXCLUDE (chain, token_address, timestamp, holders_listed, holder_limit, is_dense)
    FROM list_instants AS list
    LEFT JOIN sizes
        ON sizes.chain = list.chain AND sizes.token_address = list.token_address AND sizes.timestamp = list.timestamp
    LEFT JOIN unread
        ON unread.source = list.source
        AND unread.chain = list.chain
        AND unread.token_address = list.token_address
        AND unread.timestamp = list.timestamp
)
SELECT
    * EXCLUDE (has_end, least_amount, least_amount_exact) REPLACE (
        CASE WHEN is_complete OR (has_end AND holders_listed >= 10) THEN top_10_share END AS top_10_share
    ),
    CASE WHEN is_complete THEN 'all holders' ELSE 'list of at most ' || coalesce(holder_limit, 80) END AS basis,
    CASE WHEN is_complete THEN holders_listed END AS holders_total,
    CASE WHEN NOT is_complete THEN coalesce(holders_listed, 0) END AS depth,
    CASE WHEN is_complete THEN 0 WHEN has_end THEN least_amount END AS unlisted_at_most,
    CASE WHEN has_end AND NOT is_complete THEN least_amount_exact END AS unlisted_at_most_exact
FROM joined;
