-- Of each token the newest partition of a family (tokens, holders, maps) at or before t that answered for it, with rows
-- or without: what latest_ views and _as_of macros take their rows from.
-- Example: FROM answered_as_of('holders', '2026-06-30') ORDER BY ALL;
CREATE OR REPLACE MACRO answered_as_of(of_family, t) AS TABLE
SELECT chain, subject AS token_address, max(timestamp) AS timestamp
FROM coverage
WHERE family = of_family AND timestamp <= instant(t)
GROUP BY chain, subject;

-- When we learnt what stands in a token's partition. known_since: when its first answer was learnt; as_it_stands_since:
-- since when we know the rows as they are now (later than known_since where a later answer told otherwise, see
-- revisions). What was told before that is gone but for its counts in revisions, and revisions are kept of past
-- instants only: a live partition that was asked again counts from its last answer on.
-- Example: FROM knowledge WHERE as_it_stands_since > known_since ORDER BY chain, token_address, timestamp;
CREATE OR REPLACE VIEW knowledge AS
WITH rows_learnt AS (
    SELECT 'tokens' AS family, chain, token_address, timestamp, max(fetched_at) AS fetched_at FROM tokens GROUP BY ALL
    UNION ALL
    SELECT 'holders', chain, token_address, timestamp, max(fetched_at) FROM holders GROUP BY ALL
    UNION ALL
    SELECT 'maps', chain, token_address, timestamp, max(fetched_at) FROM maps GROUP BY ALL
),
-- an answer without rows ("nobody holds it") is a failure that counts as an answer
refusals AS (
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
learnt AS (
    SELECT
        tables.table_name,
        coverage.chain,
        coverage.subject AS token_address,
        coverage.timestamp,
        max(coalesce(rows_learnt.fetched_at, refusals.fetched_at, partitions.written_at)) AS fetched_at
    FROM coverage
    JOIN tables ON tables.family = coverage.family
    LEFT JOIN rows_learnt
        ON rows_learnt.family = coverage.family
        AND rows_learnt.chain = coverage.chain
        AND rows_learnt.token_address = coverage.subject
        AND rows_learnt.timestamp = coverage.timestamp
    LEFT JOIN refusals
        ON refusals.family = coverage.family
        AND refusals.chain = coverage.chain
        AND refusals.subject = coverage.subject
        AND refusals.timestamp = coverage.timestamp
    LEFT JOIN partitions
        ON partitions.family = coverage.family
        AND partitions.chain = coverage.chain
        AND partitions.timestamp = coverage.timestamp
    GROUP BY ALL
),
told_anew AS (
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
FROM learnt
LEFT JOIN told_anew USING (chain, token_address, timestamp, table_name);

-- Of each token the newest partition of a table (tokens, holders, maps, clusters, …) at or before t, of those that we
-- had an answer of at the instant known: two axes. replaced: what we knew then was told otherwise since, so its rows
-- are gone, and _known_at macros give none for that token rather than wrong ones.
-- Example: FROM answered_known_at('holders', '2026-06-30', '2027-01-01') ORDER BY ALL;
CREATE OR REPLACE MACRO answered_known_at(of_table, t, known) AS TABLE
SELECT chain, token_address, timestamp, as_it_stands_since > instant(known) AS replaced
FROM knowledge
WHERE table_name = of_table AND timestamp <= instant(t) AND known_since <= instant(known)
QUALIFY row_number() OVER (PARTITION BY chain, token_address ORDER BY timestamp DESC) = 1;
