-- Addresses that entered or left the list of holders between the start and the end of the period: the largest of each.
WITH listed AS (
    SELECT *
    FROM holders
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
),
ends AS (SELECT min(timestamp) AS first, max(timestamp) AS last FROM listed),
named AS (
    SELECT address, arg_max(label, timestamp) AS label
    FROM map_nodes
    WHERE chain = $chain AND token_address = $token AND timestamp <= $until AND kind = 'top_holder'
    GROUP BY address
),
moved AS (
    SELECT 'entered' AS change, present.*
    FROM listed AS present
    JOIN ends ON present.timestamp = ends.last AND ends.first < ends.last
    WHERE present.address NOT IN (SELECT address FROM listed, ends WHERE timestamp = ends.first)
    UNION ALL
    SELECT 'left', earlier.*
    FROM listed AS earlier
    JOIN ends ON earlier.timestamp = ends.first AND ends.first < ends.last
    WHERE earlier.address NOT IN (SELECT address FROM listed, ends WHERE timestamp = ends.last)
)
SELECT
    moved.change,
    moved.rank,
    moved.address,
    coalesce(moved.label, named.label) AS label,
    coalesce(moved.amount_exact, CAST(moved.amount AS VARCHAR)) AS amount,
    moved.share,
    count(*) OVER (PARTITION BY moved.change) AS of_all
FROM moved
LEFT JOIN named ON named.address = moved.address
QUALIFY row_number() OVER (PARTITION BY moved.change ORDER BY moved.rank, moved.address) <= 12
ORDER BY moved.change, moved.rank, moved.address;
