-- The family of tables that an endpoint's answers fill, for the column endpoint of failures: maps for map, and so on.
-- Example: SELECT family_of(endpoint) AS family, count(*) AS requests FROM failures GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE MACRO family_of(endpoint) AS
CASE endpoint
    WHEN 'map' THEN 'maps'
    WHEN 'token_metadata' THEN 'tokens'
    WHEN 'tokens_metadata' THEN 'tokens'
    WHEN 'subgraph' THEN 'subgraphs'
    WHEN 'address_metadata' THEN 'addresses'
    WHEN 'addresses_metadata' THEN 'addresses'
    ELSE endpoint
END;

-- Known problems of the data, one row a problem. Read it before you trust a figure. Values of severity: error (a figure
-- of the row is wrong or unusable), warning (rows are missing or may be out of date), info (a fact that explains the
-- data). Values of issue: gap (warning): a token was to be requested at the instant and has no answer, but has a later
-- one (or none at all); a token that a run with --token left out has no gap. missing_instant (warning): two instants of
-- a family and chain are further apart than usual. late_partition (info): written a day or more after a later instant
-- of the same chain and family, by a backfill or a refresh. failure (warning): a request without rows. no_holders
-- (info; warning if the token has holders before and after): a token has no holders yet or any more. unsupported_token
-- (info): no map or list of the token is possible. These two have one row for all instants of a token; found counts
-- them, timestamp is the last. after_source_end (warning): maps or lists of holders are later than the source's data;
-- one row for all instants of a token, the view after_source_end has each. young_source (info): maps soon after the
-- first transfer of your store, whose fresh_wallets is nearly all wallets; one row for all instants of a token.
-- stale_token (warning if it was requested since, else info): the newest answer of a token is older than the newest of
-- its chain. unknown_relationship (info): a relationship of a type that this version does not know. revision (info): a
-- later answer changed the rows of a past instant. negative_balance (warning): in the own store an address has a
-- balance below zero, because transfers are missing or its source rounds amounts; found is the raw balance in the
-- token's newest map, and what names the first map with it ('holderlake store negative-balances' names the second).
-- unreadable_row and unreadable_value (warning): a row was left out, or a value is null, because it could not be read;
-- what names the place. missing_content (warning): content that was requested and paid is absent or null; what names
-- the place. content_lost (warning): a token has less than half of the rows of the instant before, in found rows.
-- contradiction (error): rows contradict each other or themselves, see the view contradictions. incomplete_source
-- (error): stored transfers differ from those of a node, and drifting_balances (warning): the token changes balances
-- without transfers, see the view verified. assumed_decimals (warning): no source gave the decimals of a token of the
-- own store; found is the assumed number. source_changed (warning): the rows were computed before your store changed,
-- as of the instant or earlier, by an import, labels or thresholds; what names the time. 'holderlake backfill --stale'
-- computes them again, free. The view odd_rows lists its own issues.
-- Example: SELECT severity, issue, count(*) AS cases FROM data_quality GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW data_quality AS
WITH instants AS (
    SELECT DISTINCT family, chain, timestamp FROM coverage
),
lives AS (
    SELECT family, chain, subject, max(timestamp) AS last
    FROM coverage
    WHERE family IN ('tokens', 'holders', 'maps')
    GROUP BY ALL
),
newest AS (
    SELECT family, chain, max(timestamp) AS timestamp FROM instants GROUP BY ALL
),
holes AS (
    SELECT requested.*, lives.last
    FROM (
        SELECT family, chain, timestamp, subject, bool_or(has_failed) AS has_failed
        FROM (
            SELECT family, chain, timestamp, subject, false AS has_failed FROM unanswered
            UNION ALL
            SELECT family_of(endpoint), chain, timestamp, subject, true FROM failures WHERE place IS NULL
        )
        GROUP BY family, chain, timestamp, subject
    ) AS requested
    LEFT JOIN lives
        ON lives.family = requested.family AND lives.chain = requested.chain AND lives.subject = requested.subject
    ANTI JOIN coverage
        ON coverage.family = requested.family
        AND coverage.chain = requested.chain
        AND coverage.subject = requested.subject
        AND coverage.timestamp = requested.timestamp
    WHERE requested.family IN ('tokens', 'holders', 'maps')
),
held AS (
    SELECT chain, token_address AS subject, min(timestamp) AS first, max(timestamp) AS last
    FROM (
        SELECT chain, token_address, timestamp FROM holders WHERE rank = 1
        UNION ALL
        SELECT chain, token_address, timestamp FROM maps
    )
    GROUP BY ALL
),
facts AS (
    SELECT
        code, failures.chain, timestamp, family_of(endpoint) AS family, failures.subject, reason,
        timestamp > held.first AND timestamp < held.last AS is_odd,
        CASE
            WHEN code = 'unsupported_token' THEN NULL
            WHEN timestamp > held.last THEN 'the token has no holders any more'
            WHEN timestamp > held.first THEN 'no holders, but some at an earlier and at a later instant'
            ELSE 'the token has no holders yet'
        END AS fact
    FROM failures
    LEFT JOIN held ON held.chain = failures.chain AND held.subject = failures.subject
    WHERE place IS NULL AND code IN ('no_holders', 'unsupported_token')
)
SELECT
    'gap' AS issue, 'warning' AS severity, chain, timestamp, family, subject,
    NULL::DOUBLE AS found,
    CASE WHEN has_failed THEN 'the request failed' ELSE 'the run stopped before the request' END AS what
FROM holes
WHERE timestamp < last OR (last IS NULL AND NOT has_failed)
UNION ALL
SELECT
    'missing_instant', 'warning', chain, timestamp, family, NULL, round(step / usual) - 1,
    'instants missing before this one'
FROM (
    SELECT *, median(step) OVER (PARTITION BY family, chain) AS usual
    FROM (
        SELECT *, epoch(timestamp) - lag(epoch(timestamp)) OVER (PARTITION BY family, chain ORDER BY timestamp) AS step
        FROM instants
    )
)
WHERE step >= 1.5 * usual
UNION ALL
SELECT
    'late_partition', 'info', chain, timestamp, family, NULL,
    date_diff('second', next_written_at, written_at) / 86400.0,
    'days after a later instant was written'
FROM (
    SELECT *, min(written_at) OVER (
        PARTITION BY family, chain ORDER BY timestamp ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS next_written_at
    FROM partitions
)
WHERE written_at >= next_written_at + INTERVAL 1 DAY
UNION ALL
SELECT 'failure', 'warning', chain, timestamp, family_of(endpoint), subject, NULL, code || ': ' || reason
FROM failures
WHERE place IS NULL AND code NOT IN ('no_holders', 'unsupported_token')
UNION ALL
SELECT code, 'warning', chain, timestamp, family_of(endpoint), subject, NULL, place || ': ' || reason
FROM failures
WHERE place IS NOT NULL
UNION ALL
SELECT
    code, CASE WHEN code = 'no_holders' AND is_odd THEN 'warning' ELSE 'info' END, chain, max(timestamp), family, subject, count(*),
    'instants since ' || min(timestamp) || ': ' || coalesce(fact, any_value(reason))
FROM facts
GROUP BY code, chain, family, subject, fact, is_odd
UNION ALL
SELECT
    'fetched_early', 'error', chain, timestamp, family, NULL, date_diff('second', written_at, timestamp) / 3600.0,
    'hours before the instant it was fetched'
FROM partitions
WHERE written_at < timestamp AND family NOT IN ('holders', 'maps')
UNION ALL
SELECT
    'negative_balance', 'warning', chain, timestamp, 'maps', token_address, CAST(balance AS DOUBLE),
    address || ' is below zero by ' || ltrim(balance, '-') || ' (raw) in all maps since ' || since || '; one of '
    || addresses || ' addresses'
FROM (
    SELECT *, min(timestamp) OVER (PARTITION BY chain, token_address, address, place - streak) AS since
    FROM (
        SELECT
            *, json_extract_string(one, '$.address') AS address, json_extract_string(one, '$.balance') AS balance,
            row_number() OVER (PARTITION BY chain, token_address, address ORDER BY timestamp) AS streak
        FROM (
            SELECT
                *, json_extract_string(negative_balances, '$.count') AS addresses,
                unnest(CAST(json_extract(negative_balances, '$.lowest[*]') AS JSON[])) AS one
            FROM (
                SELECT
                    chain, token_address, timestamp, negative_balances,
                    row_number() OVER (PARTITION BY chain, token_address ORDER BY timestamp) AS place,
                    max(timestamp) OVER (PARTITION BY chain, token_address) AS newest
                FROM maps
            )
        )
    )
)
WHERE timestamp = newest
UNION ALL
SELECT
    'stale_token', CASE WHEN asked.timestamp > lives.last THEN 'warning' ELSE 'info' END, lives.chain, lives.last,
    lives.family, lives.subject, date_diff('second', lives.last, newest.timestamp) / 86400.0,
    'days older than the newest of its chain; '
    || CASE WHEN asked.timestamp > lives.last THEN 'requested since without an answer' ELSE 'not requested since' END
FROM lives
JOIN newest USING (family, chain)
LEFT JOIN (SELECT family, chain, subject, max(timestamp) AS timestamp FROM holes GROUP BY ALL) AS asked
    ON asked.family = lives.family AND asked.chain = lives.chain AND asked.subject = lives.subject
WHERE lives.last < newest.timestamp
UNION ALL
SELECT
    'after_source_end', 'warning', chain, min(timestamp), family, token_address, count(*),
    'instants from here to ' || max(timestamp) || ' are later than the data: the last known transfer is of '
    || any_value(last_transfer)
FROM after_source_end
GROUP BY chain, family, token_address
UNION ALL
SELECT
    'young_source', 'info', chain, max(timestamp), 'maps', token_address, count(*),
    'instants since ' || min(timestamp) || ' are soon after the first transfer of your store, of ' || any_value(begun)
    || ', so that nearly all wallets count as fresh'
FROM maps
CROSS JOIN (SELECT min(first_transfer) AS begun FROM stored_tokens)
WHERE fresh_wallets > 0
    AND timestamp BETWEEN begun
        AND begun + to_seconds(coalesce(CAST(json_extract(rules, '$.fresh_wallet_seconds') AS BIGINT), 864000))
GROUP BY chain, token_address
UNION ALL
SELECT
    CASE WHEN is_complete THEN 'drifting_balances' ELSE 'incomplete_source' END,
    CASE WHEN is_complete THEN 'warning' ELSE 'error' END,
    chain, as_of, 'maps', token_address,
    missing_rows + extra_rows + unread_blocks,
    CASE
        WHEN is_complete THEN 'supply or balances differ from those of the contract, and all transfers are stored'
        ELSE missing_rows || ' rows missing, ' || extra_rows || ' that are not on the chain, ' || unread_blocks
            || ' blocks never imported, of blocks ' || first_block || ' to ' || last_block
    END
FROM verified
WHERE NOT is_complete OR balances = 'different'
UNION ALL
SELECT
    'assumed_decimals', 'warning', chain, last_transfer, 'tokens', token_address, decimals,
    'no source gave the decimals; import a token list, or read the token from a node'
FROM stored_tokens
WHERE has_assumed_decimals
UNION ALL
SELECT 'unknown_relationship', 'info', chain, timestamp, 'maps', token_address, count(*), 'rows of type ' || rel_type
FROM grouped_transfers
WHERE rel_type <> 'GROUPED_TRANSFER'
GROUP BY chain, timestamp, token_address, rel_type
UNION ALL
SELECT
    'revision', 'info', chain, timestamp, family, subject, rows_gone + rows_new,
    'rows of ' || table_name || ' changed by a later answer'
FROM revisions
WHERE family IN ('holders', 'maps')
UNION ALL
SELECT
    'content_lost', 'warning', chain, timestamp, family, subject, found,
    table_name || ': rows left of ' || before || ' at the instant before'
FROM (
    SELECT *, lag(found) OVER (PARTITION BY family, table_name, chain, subject ORDER BY timestamp) AS before
    FROM (
        SELECT coverage.family, of_family.table_name, coverage.chain, coverage.subject, coverage.timestamp, count(listed.chain) AS found
        FROM coverage
        JOIN (VALUES ('holders', 'holders'), ('maps', 'map_nodes'), ('maps', 'grouped_transfers')) AS of_family (family, table_name)
            ON of_family.family = coverage.family
        LEFT JOIN (
            SELECT 'holders' AS table_name, chain, token_address, timestamp FROM holders
            UNION ALL
            SELECT 'map_nodes', chain, token_address, timestamp FROM map_nodes WHERE kind = 'top_holder'
            UNION ALL
            SELECT 'grouped_transfers', chain, token_address, timestamp FROM grouped_transfers
        ) AS listed
            ON listed.table_name = of_family.table_name AND listed.chain = coverage.chain
            AND listed.token_address = coverage.subject AND listed.timestamp = coverage.timestamp
        ANTI JOIN failures
            ON family_of(failures.endpoint) = coverage.family AND failures.chain = coverage.chain
            AND failures.subject = coverage.subject AND failures.timestamp = coverage.timestamp
            AND failures.code = 'no_holders'
        GROUP BY ALL
    )
)
WHERE before >= 20 AND found * 2 < before
UNION ALL
SELECT
    'source_changed', 'warning', chain, timestamp, family, NULL, NULL,
    'computed before your store changed '
    || CASE
        WHEN epoch(first_time) = 0 THEN 'as of all times'
        ELSE 'as of ' || strftime(first_time, '%Y-%m-%d %H:%M')
    END
FROM partitions
ASOF JOIN _internal.store_changes AS changes ON partitions.store_change < changes.number
WHERE first_time <= timestamp
UNION ALL
FROM odd_rows
UNION ALL
FROM contradictions;
