-- Each token's partitions of holders in order, with the ones before and after; those that answered without a row, too.
-- Example: FROM holder_partitions WHERE next_timestamp IS NULL ORDER BY ALL;
CREATE OR REPLACE VIEW holder_partitions AS
SELECT
    chain,
    token_address,
    timestamp,
    row_number() OVER series AS place,
    lag(timestamp) OVER series AS previous_timestamp,
    lead(timestamp) OVER series AS next_timestamp
FROM comparable
WHERE family = 'holders'
WINDOW series AS (PARTITION BY chain, token_address ORDER BY timestamp);

-- Who appeared on a token's list of holders after t1 up to t2, partition by partition: not on the list before
-- (previous_timestamp), on it at timestamp. Who came, left and came again has a row each time. A token's first list has
-- no list before, so nobody enters with it. The list is as long as was asked for.
-- Example: SELECT timestamp, address, share FROM holder_entries('2025-01-01', '2026-01-01') ORDER BY share DESC, timestamp, address LIMIT 5;
CREATE OR REPLACE MACRO holder_entries(t1, t2) AS TABLE
WITH moments AS (
    FROM holder_partitions
    WHERE timestamp > instant(t1) AND timestamp <= instant(t2) AND previous_timestamp IS NOT NULL
)
SELECT
    holders.chain,
    holders.token_address,
    moments.previous_timestamp,
    holders.timestamp,
    holders.address,
    holders.label,
    holders.rank,
    holders.amount,
    holders.amount_exact,
    holders.share
FROM holders
JOIN moments USING (chain, token_address, timestamp)
-- no anti join: a question about one token would not reach its other side
LEFT JOIN holders AS earlier
    ON earlier.chain = holders.chain
    AND earlier.token_address = holders.token_address
    AND earlier.timestamp = moments.previous_timestamp
    AND earlier.address = holders.address
WHERE earlier.address IS NULL;

-- Who vanished from a token's list of holders after t1 up to t2, partition by partition: on the list at last_timestamp,
-- not on the next one (timestamp). Figures are those of the last list with it. Who falls below the list's end leaves
-- it, too.
-- Example: SELECT timestamp, address, share FROM holder_exits('2025-01-01', '2026-01-01') ORDER BY share DESC, timestamp, address LIMIT 5;
CREATE OR REPLACE MACRO holder_exits(t1, t2) AS TABLE
WITH moments AS (
    FROM holder_partitions
    WHERE next_timestamp > instant(t1) AND next_timestamp <= instant(t2)
)
SELECT
    holders.chain,
    holders.token_address,
    holders.timestamp AS last_timestamp,
    moments.next_timestamp AS timestamp,
    holders.address,
    holders.label,
    holders.rank,
    holders.amount,
    holders.amount_exact,
    holders.share
FROM holders
JOIN moments USING (chain, token_address, timestamp)
-- no anti join: a question about one token would not reach its other side
LEFT JOIN holders AS later
    ON later.chain = holders.chain
    AND later.token_address = holders.token_address
    AND later.timestamp = moments.next_timestamp
    AND later.address = holders.address
WHERE later.address IS NULL;
