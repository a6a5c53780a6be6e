-- The pairs of addresses that links of a token's maps connect. Each address has its three pairs of the most maps.
WITH pairs AS (
    SELECT
        least(from_address, to_address) AS one,
        greatest(from_address, to_address) AS other,
        time_node,
        count(DISTINCT timestamp) AS maps,
        sum(total_transfers) AS transfers
    FROM grouped_transfers
    WHERE chain = $chain AND token_address = $token AND from_address <> to_address
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
    QUALIFY row_number() OVER (PARTITION BY address ORDER BY maps DESC, transfers DESC, one, other, time_node) <= 3
)
ORDER BY one, other, time_node
