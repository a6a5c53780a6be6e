-- The newest partition of a family (tokens, holders, maps) at or before t that answered for each token, with or without
-- rows. The latest_ views and _as_of macros take their rows from it.
-- Example: FROM answered_as_of('holders', '2026-06-30') ORDER BY ALL;
CREATE OR REPLACE MACRO answered_as_of(of_family, t) AS TABLE
SELECT chain, subject AS token_address, max(timestamp) AS timestamp
FROM coverage
WHERE family = of_family AND timestamp <= instant(t)
GROUP BY chain, subject;

-- When the rows of each token's partition were fetched. Older rows of a partition are gone, except for their counts in
-- revisions; and revisions are kept for past instants only: a live partition that was fetched again counts from its
-- last answer.
-- Example: FROM knowledge WHERE as_it_stands_since > known_since ORDER BY chain, token_address, timestamp;
CREATE OR REPLACE VIEW knowledge AS
WITH rows_fetched AS (
    SELECT 'tokens' AS family, chain, token_address, timestamp, max(fetched_at) AS fetched_at FROM tokens GROUP BY ALL
    UNION ALL
    SELECT 'holders', chain, token_address, timestamp, max(fetched_at) FROM holders GROUP BY ALL
    UNION ALL
    SELECT 'maps', chain, token_address, timestamp, max(fetched_at) FROM maps GROUP BY ALL
),
-- "no holders" is a failure that counts as an answer
failed AS (
    SELECT CASE endpoint WHEN 'map' THEN 'maps' ELSE endpoint END AS family, chain, subject, timestamp, fetched_at
    FROM failures
),
tables AS (
    SELECT 'tokens' AS family, 'tokens' AS table_name
    UNION ALL
    SELECT 'holders', 'holders'
    UNION ALL
    SELECT 'maps', unnest(['maps', 'map_nodes', 'grouped_transfers', 'clusters', 'cluster_members'])
),
answers AS (
    SELECT
        tables.table_name,
        coverage.chain,
        coverage.subject AS token_address,
        coverage.timestamp,
        max(coalesce(rows_fetched.fetched_at, failed.fetched_at, partitions.written_at)) AS fetched_at
    FROM coverage
    JOIN tables ON tables.family = coverage.family
    LEFT JOIN rows_fetched
        ON rows_fetched.family = coverage.family
        AND rows_fetched.chain = coverage.chain
        AND rows_fetched.token_address = coverage.subject
        AND rows_fetched.timestamp = coverage.timestamp
    LEFT JOIN failed
        ON failed.family = coverage.family
        AND failed.chain = coverage.chain
        AND failed.subject = coverage.subject
        AND failed.timestamp = coverage.timestamp
    LEFT JOIN partitions
        ON partitions.family = coverage.family
        AND partitions.chain = coverage.chain
        AND partitions.timestamp = coverage.timestamp
    GROUP BY ALL
),
changed AS (
    SELECT
        table_name,
        chain,
        subject AS token_address,
        timestamp,
        min(known_since) AS known_since,
        max(fetched_at) AS changed_at
    FROM revisions
    GROUP BY ALL
)
SELECT
    chain,
    token_address,
    timestamp,
    table_name,
    least(fetched_at, known_since) AS known_since,
    coalesce(changed_at, fetched_at) AS as_it_stands_since
FROM answers
LEFT JOIN changed USING (chain, token_address, timestamp, table_name);

-- The newest partition of a table (tokens, holders, maps, clusters, …) at or before t, among those with an answer at
-- the time known: two axes of time. The _known_at macros return no rows for a token whose rows changed since then,
-- instead of wrong ones.
-- Example: FROM answered_known_at('holders', '2026-06-30', '2027-01-01') ORDER BY ALL;
CREATE OR REPLACE MACRO answered_known_at(of_table, t, known) AS TABLE
SELECT chain, token_address, timestamp, as_it_stands_since > instant(known) AS replaced
FROM knowledge
WHERE table_name = of_table AND timestamp <= instant(t) AND known_since <= instant(known)
QUALIFY row_number() OVER (PARTITION BY chain, token_address ORDER BY timestamp DESC) = 1;
