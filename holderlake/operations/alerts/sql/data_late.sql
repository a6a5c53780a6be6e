-- Alert when the newest data of a watched token (holders or map) is older than the threshold, in intervals of the
-- schedule. A failure that is final (no holders, no map) counts as data. For a token without data, the time counts from
-- the rule's first evaluation. One alert until newer data comes. The subject is the token.
/*
table = "warehouse"
sentence = "no data for {measured:.1f} intervals of the schedule (more than {threshold:g})"
unit = "intervals of the schedule"
options.threshold = 2
is_of_head = false
*/
WITH newest AS (
    SELECT chain, token_address, max(timestamp) AS timestamp
    FROM (
        SELECT chain, token_address, timestamp FROM maps
        UNION ALL
        SELECT chain, token_address, timestamp FROM holders
        UNION ALL
        SELECT chain, subject, timestamp FROM failures
        WHERE code IN ('no_holders', 'unsupported_token', 'unknown_token')
    )
    WHERE timestamp <= $until
    GROUP BY chain, token_address
),
ages AS (
    SELECT
        watched.chain,
        watched.token_address,
        newest.timestamp AS newest,
        epoch(CAST($until AS TIMESTAMP) - coalesce(newest.timestamp, CAST($began AS TIMESTAMP))) AS seconds
    FROM watched
    LEFT JOIN newest USING (chain, token_address)
),
failed AS (
    SELECT
        chain,
        subject,
        arg_max(code, timestamp) AS code,
        arg_max(reason, timestamp) AS reason,
        max(timestamp) AS timestamp
    FROM failures
    WHERE timestamp <= $until
    GROUP BY chain, subject
)
SELECT
    ages.chain,
    ages.token_address,
    CAST($until AS TIMESTAMP) AS timestamp,
    ages.token_address AS subject,
    coalesce(CAST(ages.newest AS VARCHAR), 'never') AS occasion,
    ages.seconds / $interval_seconds AS measured,
    to_json({
        'newest_timestamp': ages.newest,
        'hours_since': round(ages.seconds / 3600, 1),
        'interval_hours': round($interval_seconds / 3600, 1),
        'last_failure': failed.code,
        'last_failure_reason': failed.reason
    }) AS evidence
FROM ages
LEFT JOIN failed
    ON failed.chain = ages.chain
    AND failed.subject = ages.token_address
    AND failed.timestamp > coalesce(ages.newest, TIMESTAMP '1970-01-01')
WHERE ages.seconds > $threshold * $interval_seconds
ORDER BY ages.chain, ages.token_address;
