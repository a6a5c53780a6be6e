-- The number of addresses that entered and left the list of holders, from each partition to the next.
WITH listed AS (
    SELECT timestamp, address
    FROM holders
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
),
moments AS (
    SELECT timestamp, lag(timestamp) OVER (ORDER BY timestamp) AS previous_timestamp
    FROM (SELECT DISTINCT timestamp FROM listed)
),
pairs AS (
    SELECT moments.timestamp, present.address IS NOT NULL AS is_there, earlier.address IS NOT NULL AS was_there
    FROM moments
    JOIN listed AS someone ON someone.timestamp IN (moments.timestamp, moments.previous_timestamp)
    LEFT JOIN listed AS present ON present.timestamp = moments.timestamp AND present.address = someone.address
    LEFT JOIN listed AS earlier
        ON earlier.timestamp = moments.previous_timestamp
        AND earlier.address = someone.address
    WHERE moments.previous_timestamp IS NOT NULL
    GROUP BY moments.timestamp, someone.address, present.address, earlier.address
)
SELECT
    timestamp,
    count(*) FILTER (is_there AND NOT was_there) AS entered,
    count(*) FILTER (was_there AND NOT is_there) AS left_it,
    count(*) FILTER (is_there) AS listed
FROM pairs
GROUP BY timestamp
ORDER BY timestamp;
