-- The shares through time of the eight addresses that once held most, with their last labels in lists or maps; null if the
-- list lacks the address.
WITH listed AS (
    SELECT timestamp, address, label, share
    FROM listed_holders
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
),
named AS (
    SELECT address, arg_max(label, timestamp) AS label
    FROM (
        SELECT address, timestamp, label FROM listed
        UNION ALL
        SELECT address, timestamp, label
        FROM map_nodes
        WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
    )
    GROUP BY address
),
largest AS (
    SELECT address, max(share) AS most
    FROM listed
    GROUP BY address
    ORDER BY most DESC, address
    LIMIT 8
)
SELECT moments.timestamp, largest.address, named.label, listed.share
FROM (SELECT DISTINCT timestamp FROM listed) AS moments
CROSS JOIN largest
LEFT JOIN named ON named.address = largest.address
LEFT JOIN listed ON listed.timestamp = moments.timestamp AND listed.address = largest.address
ORDER BY largest.most DESC, largest.address, moments.timestamp;
