-- The shares through time of the eight addresses that once held most; null if the list lacks the address.
WITH listed AS (
    SELECT timestamp, address, share
    FROM listed_holders
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
),
largest AS (
    SELECT address, max(share) AS most
    FROM listed
    GROUP BY address
    ORDER BY most DESC, address
    LIMIT 8
)
SELECT moments.timestamp, largest.address, listed.share
FROM (SELECT DISTINCT timestamp FROM listed) AS moments
CROSS JOIN largest
LEFT JOIN listed ON listed.timestamp = moments.timestamp AND listed.address = largest.address
ORDER BY largest.most DESC, largest.address, moments.timestamp;
