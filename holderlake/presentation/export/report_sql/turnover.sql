-- The number of addresses that entered and left the list of holders, from each list to the next.
SELECT
    to_timestamp AS timestamp,
    count(*) FILTER (change = 'entered') AS entered,
    count(*) FILTER (change = 'left') AS "left"
FROM holder_changes(CAST($since AS TIMESTAMPTZ), CAST($until AS TIMESTAMPTZ), each_list := true)
WHERE chain = $chain AND token_address = $token
GROUP BY to_timestamp
ORDER BY to_timestamp;
