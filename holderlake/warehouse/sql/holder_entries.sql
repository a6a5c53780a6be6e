-- Each token's partitions of holders in order, including those without rows.
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

-- Addresses that entered a token's list of holders after t1 and up to t2, by partition: they are in the list at
-- timestamp, and not in the previous one. An address that returns has a row each time. A token's first list has no
-- entries. The list has a limited length.
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
-- not an anti join: DuckDB would not push a filter on one token to its other side
LEFT JOIN holders AS earlier
    ON earlier.chain = holders.chain
    AND earlier.token_address = holders.token_address
    AND earlier.timestamp = moments.previous_timestamp
    AND earlier.address = holders.address
WHERE earlier.address IS NULL;

-- Addresses that left a token's list of holders after t1 and up to t2, by partition: they are in the list at
-- last_timestamp, and not in the next one (timestamp). The figures are those of the last list with the address. An
-- address also leaves the list by falling below its end.
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
-- not an anti join: DuckDB would not push a filter on one token to its other side
LEFT JOIN holders AS later
    ON later.chain = holders.chain
    AND later.token_address = holders.token_address
    AND later.timestamp = moments.next_timestamp
    AND later.address = holders.address
WHERE later.address IS NULL;
