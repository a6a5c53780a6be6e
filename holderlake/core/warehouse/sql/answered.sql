-- The newest partition of a family (tokens, holders, maps) at or before t that answered for each token, with or without
-- rows. The latest_ views and _as_of macros take their rows from it. An answer may be much older than t: requested is
-- t, days_earlier is the distance, and is_outdated is true beyond the setting sql.as_of_warning.
-- Example: FROM answered_as_of('holders', '2026-06-30') ORDER BY ALL;
CREATE OR REPLACE MACRO answered_as_of(of_family, t) AS TABLE
SELECT
    *,
    instant(t) AS requested,
    as_of_distance(t, timestamp) AS days_earlier,
    timestamp < instant(t) - as_of_warning() AS is_outdated
FROM (
    SELECT chain, subject AS token_address, max(timestamp) AS timestamp
    FROM coverage
    WHERE family = of_family AND timestamp <= instant(t)
    GROUP BY chain, subject
);

-- Since when the answer about each token in each partition is known, and since when it has its present content. A later
-- answer with the same content only confirms it. The rows that a later answer changed are in replaced_tokens, replaced_holders
-- and so on.
-- Example: FROM knowledge WHERE as_it_stands_since > known_since ORDER BY chain, token_address, timestamp;
CREATE OR REPLACE VIEW knowledge AS
WITH rows_known AS (
    SELECT 'tokens' AS family, chain, token_address, timestamp, min(fetched_at) AS since FROM tokens GROUP BY ALL
    UNION ALL
    SELECT 'holders', chain, token_address, timestamp, min(fetched_at) FROM holders GROUP BY ALL
    UNION ALL
    SELECT 'maps', chain, token_address, timestamp, min(fetched_at) FROM maps GROUP BY ALL
),
-- "no holders" is a failure that counts as an answer
failed AS (
    SELECT
        family_of(endpoint) AS family,
        chain,
        subject,
        timestamp,
        max(fetched_at) AS since
    FROM failures
    GROUP BY ALL
),
changes AS (
    SELECT
        family,
        chain,
        subject,
        timestamp,
        min(known_since) AS since,
        max(fetched_at) AS changed_at
    FROM revisions
    GROUP BY ALL
)
SELECT
    family,
    chain,
    token_address,
    timestamp,
    since AS known_since,
    greatest(changed_at, since) AS as_it_stands_since
FROM (
    SELECT
        coverage.family,
        coverage.chain,
        coverage.subject AS token_address,
        coverage.timestamp,
        coalesce(
            least(coverage.known_since, rows_known.since, changes.since), failed.since, partitions.written_at
        ) AS since,
        changes.changed_at
    FROM coverage
    LEFT JOIN rows_known
        ON rows_known.family = coverage.family
        AND rows_known.chain = coverage.chain
        AND rows_known.token_address = coverage.subject
        AND rows_known.timestamp = coverage.timestamp
    LEFT JOIN failed
        ON failed.family = coverage.family
        AND failed.chain = coverage.chain
        AND failed.subject = coverage.subject
        AND failed.timestamp = coverage.timestamp
    LEFT JOIN changes
        ON changes.family = coverage.family
        AND changes.chain = coverage.chain
        AND changes.subject = coverage.subject
        AND changes.timestamp = coverage.timestamp
    LEFT JOIN partitions
        ON partitions.family = coverage.family
        AND partitions.chain = coverage.chain
        AND partitions.timestamp = coverage.timestamp
    WHERE coverage.family IN ('tokens', 'holders', 'maps')
);

-- The newest partition of a table (tokens, holders, maps, clusters, …) at or before t, among those with an answer at
-- the time known: two axes of time.
-- Example: FROM answered_known_at('holders', '2026-06-30', '2027-01-01') ORDER BY ALL;
CREATE OR REPLACE MACRO answered_known_at(of_table, t, known) AS TABLE
SELECT
    chain,
    token_address,
    timestamp,
    instant(t) AS requested,
    as_of_distance(t, timestamp) AS days_earlier,
    timestamp < instant(t) - as_of_warning() AS is_outdated
FROM knowledge
WHERE family = CASE WHEN of_table IN ('tokens', 'holders') THEN of_table ELSE 'maps' END
    AND timestamp <= instant(t)
    AND known_since <= instant(known)
QUALIFY row_number() OVER (PARTITION BY chain, token_address ORDER BY timestamp DESC) = 1;
