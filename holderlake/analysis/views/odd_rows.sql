-- Odd rows of answers, one row a problem, in the columns of data_quality, which includes them. Rows are stored as the
-- provider sent them; a value that no column can store is null. Values of issue: missing_value (warning): values that
-- an answer always has are null. share_range and score_range (error, info within rounding): a share or score is outside
-- its scale. share_sum (error, warning below 1.01): the shares of a token's holders add up to
-- more than 1, mostly because transfers are missing, so that addresses are below zero. rank_gap (error): the ranks are
-- not 1, 2, 3 and so on. negative (error): a negative amount or count. repeated_row (error): rows share a key, so sums
-- count them twice. date_order (error): the first date of a transfer follows its last. date_ahead (warning): a date is
-- more than a day after the fetch. fetched_early (error): fetched before the instant that it is for, so it shows an
-- earlier state; a plan counts it as missing, and a backfill fetches it again. odd_address (warning): an address or
-- chain of a form that no chain uses. odd_text (warning): a name or label with control characters or replaced ones.
-- several_scores (info): the provider sent more scores than one.
-- Example: SELECT severity, issue, subject, found, what FROM odd_rows ORDER BY ALL;
CREATE OR REPLACE VIEW odd_rows AS
WITH names AS (
    SELECT address AS name FROM holders
    UNION
    SELECT address FROM map_nodes
    UNION
    SELECT address FROM cluster_members
    UNION
    SELECT address FROM addresses
    UNION
    SELECT from_address FROM grouped_transfers
    UNION
    SELECT to_address FROM grouped_transfers
    UNION
    SELECT transfer_token FROM grouped_transfers
    UNION
    SELECT transfer_chain FROM grouped_transfers
),
odd_names AS (
    SELECT name
    FROM names
    WHERE NOT regexp_full_match(name, '[!-$&-.0-~]{1,128}')
        OR (name[:2] = '0x' AND NOT regexp_full_match(name, '0x[0-9a-f]{40,64}'))
)
SELECT
    'missing_value' AS issue, 'warning' AS severity, chain, timestamp, family, subject, count(*)::DOUBLE AS found,
    'rows without ' || missing AS what
FROM (
    SELECT
        chain, timestamp, 'holders' AS family, token_address AS subject,
        CASE
            WHEN rank IS NULL THEN 'a rank'
            WHEN share IS NULL THEN 'a share'
            WHEN amount IS NULL AND amount_exact IS NULL THEN 'an amount'
        END AS missing
    FROM holders
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address,
        CASE
            WHEN rank IS NULL THEN 'a rank'
            WHEN share IS NULL THEN 'a share'
            WHEN amount IS NULL AND amount_exact IS NULL THEN 'an amount'
        END
    FROM map_nodes
    WHERE kind = 'top_holder'
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address,
        CASE
            WHEN transfer_chain IS NULL OR transfer_token IS NULL THEN 'the token of a transfer'
            WHEN total_value IS NULL AND total_value_exact IS NULL THEN 'the value of a transfer'
            WHEN total_transfers IS NULL THEN 'the number of transfers'
            WHEN first_date IS NULL OR last_date IS NULL THEN 'the date of a transfer'
        END
    FROM grouped_transfers
    WHERE rel_type = 'GROUPED_TRANSFER'
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address,
        CASE
            WHEN share IS NULL THEN 'the share of a cluster'
            WHEN amount IS NULL AND amount_exact IS NULL THEN 'the amount of a cluster'
            WHEN holder_count IS NULL THEN 'the number of holders of a cluster'
        END
    FROM clusters
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, CASE WHEN dt_update IS NULL THEN 'the time of the map' END
    FROM maps
    UNION ALL
    SELECT
        chain, timestamp, 'tokens', token_address,
        CASE
            WHEN name IS NULL THEN 'a name'
            WHEN symbol IS NULL THEN 'a symbol'
            WHEN is_indexed IS NULL THEN 'is_indexed'
        END
    FROM tokens
)
WHERE missing IS NOT NULL
GROUP BY chain, timestamp, family, subject, missing
UNION ALL
SELECT
    'share_range', CASE WHEN share BETWEEN -1e-9 AND 1 + 1e-9 THEN 'info' ELSE 'error' END, chain, timestamp, family,
    token_address, share, 'share of ' || what
FROM (
    SELECT chain, timestamp, 'holders' AS family, token_address, share, address AS what FROM holders
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, share, 'node ' || address FROM map_nodes
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, share, 'cluster ' || cluster_id FROM clusters
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, share, measure
    FROM (
        UNPIVOT maps ON cexs, dexs, contracts, fresh_wallets, top_10_adjusted, bundles
        INTO NAME measure VALUE share
    )
)
WHERE NOT share BETWEEN 0 AND 1
UNION ALL
SELECT
    'score_range', CASE WHEN score BETWEEN -1e-9 AND most + 1e-9 THEN 'info' ELSE 'error' END, chain, timestamp, 'maps',
    token_address, score, measure
FROM (
    UNPIVOT (
        SELECT
            chain, timestamp, token_address, service_score, gini_index, herfindahl_hirschman_index,
            nakamoto_coefficient::DOUBLE AS nakamoto_coefficient
        FROM maps
    )
    ON service_score, gini_index, herfindahl_hirschman_index, nakamoto_coefficient
    INTO NAME measure VALUE score
)
JOIN (
    VALUES ('service_score', 100), ('gini_index', 1), ('herfindahl_hirschman_index', 1), ('nakamoto_coefficient', 1e6)
) AS scales (measure, most) USING (measure)
WHERE NOT score BETWEEN 0 AND most
UNION ALL
SELECT 'negative', 'error', chain, timestamp, family, subject, found, what
FROM (
    SELECT
        chain, timestamp, 'holders' AS family, token_address AS subject,
        least(degree, inward_relations, outward_relations)::DOUBLE AS found, 'relations of ' || address AS what
    FROM holders
    WHERE least(degree, inward_relations, outward_relations) < 0
    UNION ALL
    SELECT chain, timestamp, 'holders', token_address, amount::DOUBLE, 'amount of ' || address
    FROM holders
    WHERE amount < 0
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, amount::DOUBLE, 'amount of node ' || address
    FROM map_nodes
    WHERE amount < 0
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address, least(degree, inward_relations, outward_relations),
        'relations of node ' || address
    FROM map_nodes
    WHERE least(degree, inward_relations, outward_relations) < 0
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address, least(total_value::DOUBLE, total_transfers),
        'transfers from ' || from_address || ' to ' || to_address
    FROM grouped_transfers
    WHERE least(total_value::DOUBLE, total_transfers) < 0
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address, least(amount::DOUBLE, holder_count, magic_node_count),
        'amount or counts of cluster ' || cluster_id
    FROM clusters
    WHERE least(amount::DOUBLE, holder_count, magic_node_count) < 0
    UNION ALL
    SELECT chain, timestamp, 'tokens', token_address, transfers_count, 'transfers of the token'
    FROM tokens
    WHERE transfers_count < 0
)
UNION ALL
SELECT
    'repeated_row', 'error', chain, timestamp, family, subject, found,
    'rows of ' || table_name || ' too many for their key'
FROM (
    SELECT
        chain, timestamp, 'holders' AS family, 'holders' AS table_name, token_address AS subject,
        count(*) - count(DISTINCT hash(address)) AS found
    FROM holders
    GROUP BY ALL
    UNION ALL
    SELECT
        chain, timestamp, 'maps', 'map_nodes', token_address,
        count(*) - count(DISTINCT hash(kind, address, time_node))
    FROM map_nodes
    GROUP BY ALL
    UNION ALL
    -- one key for each row first: a group for each token and key takes twice the time
    SELECT
        chain, timestamp, 'maps', 'grouped_transfers', token_address,
        count(*) - count(DISTINCT (from_address, to_address, transfer_chain, transfer_token, time_node))
    FROM grouped_transfers
    WHERE
        rel_type = 'GROUPED_TRANSFER'
        AND hash(chain, timestamp, token_address, from_address, to_address, transfer_chain, transfer_token, time_node) IN (
            SELECT
                hash(chain, timestamp, token_address, from_address, to_address, transfer_chain, transfer_token, time_node)
            FROM grouped_transfers
            WHERE rel_type = 'GROUPED_TRANSFER'
            GROUP BY ALL
            HAVING count(*) > 1
        )
    GROUP BY ALL
    UNION ALL
    SELECT chain, timestamp, 'maps', 'cluster_members', token_address, count(*) - count(DISTINCT hash(address))
    FROM cluster_members
    GROUP BY ALL
    UNION ALL
    SELECT
        chain, timestamp, 'subgraphs', 'subgraph_transfers', address_set,
        count(*) - count(DISTINCT hash(from_address, to_address, transfer_chain, transfer_token))
    FROM subgraph_transfers
    WHERE rel_type = 'GROUPED_TRANSFER'
    GROUP BY ALL
    UNION ALL
    SELECT chain, timestamp, 'maps', 'clusters', token_address, count(*) - count(DISTINCT cluster_id)
    FROM clusters
    GROUP BY ALL
    UNION ALL
    SELECT chain, timestamp, 'maps', 'maps', token_address, count(*) - 1 FROM maps GROUP BY ALL
    UNION ALL
    SELECT chain, timestamp, 'tokens', 'tokens', token_address, count(*) - 1 FROM tokens GROUP BY ALL
    UNION ALL
    SELECT chain, timestamp, 'addresses', 'addresses', address, count(*) - 1 FROM addresses GROUP BY ALL
)
WHERE found > 0
UNION ALL
SELECT
    'date_order', 'error', chain, timestamp, 'maps', token_address, date_diff('second', last_date, first_date) / 86400.0,
    'days from last to first transfer from ' || from_address || ' to ' || to_address
FROM grouped_transfers
WHERE first_date > last_date
UNION ALL
SELECT
    'date_ahead', 'warning', chain, timestamp, family, subject, date_diff('second', fetched_at, latest) / 86400.0,
    'days after the fetch: ' || what
FROM (
    SELECT
        chain, timestamp, 'holders' AS family, token_address AS subject, fetched_at, first_activity_date AS latest,
        'first activity of ' || address AS what
    FROM holders
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, fetched_at, first_activity_date, 'first activity of ' || address
    FROM map_nodes
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address, fetched_at, last_date,
        'last transfer from ' || from_address || ' to ' || to_address
    FROM grouped_transfers
    UNION ALL
    SELECT chain, timestamp, 'tokens', token_address, fetched_at, max_date, 'last transfer of the token' FROM tokens
)
WHERE latest > fetched_at + INTERVAL 1 DAY
UNION ALL
SELECT
    'share_sum', CASE WHEN share < 1.01 THEN 'warning' ELSE 'error' END, chain, timestamp, 'holders', token_address, share,
    'sum of shares' || CASE
        WHEN below IS NOT NULL THEN ', because transfers are missing: ' || below || ' addresses are below zero'
        WHEN share < 1.01 THEN ', above 1 where transfers are missing (holderlake store negative-balances)'
        ELSE ''
    END
FROM (
    SELECT chain, timestamp, token_address, sum(share) AS share
    FROM holders
    GROUP BY ALL
    HAVING sum(share) > 1 + 1e-9
)
LEFT JOIN (
    SELECT chain, timestamp, token_address, json_extract_string(negative_balances, '$.count') AS below FROM maps
) USING (chain, timestamp, token_address)
UNION ALL
SELECT
    'rank_gap', 'error', chain, timestamp, 'holders', token_address, max(rank),
    'largest rank of ' || count(*) || ' holders'
FROM holders
GROUP BY chain, timestamp, token_address
HAVING max(rank) IS DISTINCT FROM count(*) OR min(rank) <> 1 OR count(DISTINCT rank) <> count(*)
UNION ALL
SELECT
    'fetched_early', 'error', chain, timestamp, family, subject, date_diff('second', min(fetched_at), timestamp) / 3600.0,
    'hours before the instant it was fetched'
FROM (
    SELECT chain, timestamp, 'holders' AS family, token_address AS subject, fetched_at FROM holders
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, fetched_at FROM maps
)
GROUP BY chain, timestamp, family, subject
HAVING min(fetched_at) < timestamp
UNION ALL
SELECT 'odd_address', 'warning', chain, timestamp, family, subject, count(*), 'rows with ' || name
FROM (
    SELECT chain, timestamp, 'holders' AS family, token_address AS subject, address AS name FROM holders
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, address FROM map_nodes
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, address FROM cluster_members
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, from_address FROM grouped_transfers
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, to_address FROM grouped_transfers
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, transfer_token FROM grouped_transfers
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, transfer_chain FROM grouped_transfers
    UNION ALL
    SELECT chain, timestamp, 'addresses', address, address FROM addresses
)
SEMI JOIN odd_names USING (name)
GROUP BY chain, timestamp, family, subject, name
UNION ALL
SELECT 'odd_text', 'warning', chain, timestamp, family, subject, NULL, what
FROM (
    SELECT
        chain, timestamp, 'tokens' AS family, token_address AS subject, name AS text, 'name of the token' AS what
    FROM tokens
    UNION ALL
    SELECT chain, timestamp, 'tokens', token_address, symbol, 'symbol of the token' FROM tokens
    UNION ALL
    SELECT chain, timestamp, 'holders', token_address, label, 'label of ' || address FROM holders
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, label, 'label of ' || address FROM map_nodes
)
WHERE regexp_matches(text, '[\p{Cc}\x{202A}-\x{202E}\x{2066}-\x{2069}\x{FFFD}]')
UNION ALL
SELECT 'several_scores', 'info', chain, timestamp, 'maps', token_address, NULL, 'further scores: ' || other_scores
FROM maps
WHERE other_scores IS NOT NULL;
