-- What an analyst should know before trusting the figures, a row an issue (found is a number where there is one): gap
-- (a token was not answered at an instant at which others of its chain were, between its first and last answer),
-- missing_instant (a family's instants of a chain lie further apart than they mostly do), late_partition (written a day
-- or more after a later instant of the same chain and family: a backfill, or asked again), failure (a request that did
-- not end in rows), share_sum (shares of a token's holders add up to more than 1), stale_token (its newest answer is
-- older than its chain's newest), unknown_relationship (of a type that we do not know), revision (a later answer told a
-- past otherwise), rank_gap (ranks are not 1, 2, 3 …).
-- Example: SELECT issue, count(*) AS cases FROM data_quality GROUP BY issue ORDER BY issue;
CREATE OR REPLACE VIEW data_quality AS
WITH instants AS (
    SELECT DISTINCT family, chain, timestamp FROM coverage
),
lives AS (
    SELECT family, chain, subject, min(timestamp) AS first, max(timestamp) AS last
    FROM coverage
    WHERE family IN ('tokens', 'holders', 'maps')
    GROUP BY ALL
),
newest AS (
    SELECT family, chain, max(timestamp) AS timestamp FROM instants GROUP BY ALL
)
SELECT
    'gap' AS issue, lives.chain, instants.timestamp, lives.family, lives.subject, NULL::DOUBLE AS found,
    'not answered, though before and after' AS what
FROM lives
JOIN instants
    ON instants.family = lives.family
    AND instants.chain = lives.chain
    AND instants.timestamp BETWEEN lives.first AND lives.last
ANTI JOIN coverage
    ON coverage.family = lives.family
    AND coverage.chain = lives.chain
    AND coverage.subject = lives.subject
    AND coverage.timestamp = instants.timestamp
UNION ALL
SELECT 'missing_instant', chain, timestamp, family, NULL, step / usual - 1, 'instants missing before this one'
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
    'late_partition', chain, timestamp, family, NULL, date_diff('second', next_written_at, written_at) / 86400.0,
    'days after a later instant was written'
FROM (
    SELECT *, min(written_at) OVER (
        PARTITION BY family, chain ORDER BY timestamp ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS next_written_at
    FROM partitions
)
WHERE written_at >= next_written_at + INTERVAL 1 DAY
UNION ALL
SELECT 'failure', chain, timestamp, endpoint, subject, NULL, code || ': ' || reason
FROM failures
UNION ALL
SELECT 'share_sum', chain, timestamp, 'holders', token_address, sum(share), 'sum of shares'
FROM holders
GROUP BY chain, timestamp, token_address
HAVING sum(share) > 1 + 1e-9
UNION ALL
SELECT 'rank_gap', chain, timestamp, 'holders', token_address, max(rank), 'largest rank of ' || count(*) || ' holders'
FROM holders
GROUP BY chain, timestamp, token_address
HAVING max(rank) <> count(*) OR min(rank) <> 1
UNION ALL
SELECT
    'stale_token', lives.chain, lives.last, lives.family, lives.subject,
    date_diff('second', lives.last, newest.timestamp) / 86400.0, 'days older than the newest of its chain'
FROM lives
JOIN newest USING (family, chain)
WHERE lives.last < newest.timestamp
UNION ALL
SELECT 'unknown_relationship', chain, timestamp, 'maps', token_address, count(*), 'rows of type ' || rel_type
FROM grouped_transfers
WHERE rel_type <> 'GROUPED_TRANSFER'
GROUP BY chain, timestamp, token_address, rel_type
UNION ALL
SELECT 'revision', chain, timestamp, family, subject, rows_gone + rows_new, 'rows of ' || table_name || ' told otherwise'
FROM revisions;
