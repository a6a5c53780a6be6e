-- The pairs of addresses that links of a token's maps connect. Each address has its three pairs of the most links. Of a
-- long history, at most 47 maps are read: every second one, every third one, and so on, with the newest.
WITH dates AS (
    SELECT timestamp
    FROM maps
    WHERE chain = $chain AND token_address = $token
    QUALIFY (row_number() OVER (ORDER BY timestamp DESC) - 1) % greatest(1, count(*) OVER () // 24) = 0
),
pairs AS (
    SELECT
        least(from_address, to_address) AS one,
        greatest(from_address, to_address) AS other,
        time_node,
        count(*) AS links,
        sum(total_transfers) AS transfers
    FROM grouped_transfers
    WHERE
        chain = $chain
        AND token_address = $token
        AND from_address <> to_address
        AND timestamp IN (FROM dates)
    GROUP BY ALL
),
ends AS (
    SELECT one AS address, * FROM pairs
    UNION ALL
    SELECT other AS address, * FROM pairs
)
SELECT DISTINCT one, other, time_node
FROM (
    FROM ends
    QUALIFY row_number() OVER (PARTITION BY address ORDER BY links DESC, transfers DESC, one, other, time_node) <= 3
)
ORDER BY one, other, time_node
