-- Alert when the score fell by at least the threshold (points) from its highest value in the time before. A longer fall
-- gives one alert when it reaches the threshold, and another only after a further fall of that size. The subject is the
-- token.
/*
table = "maps"
sentence = "the score fell by {measured:.2f} points ({threshold:g} or more)"
unit = "points"
options.threshold = 5
options.within = "1d"
about.within = "Period in which the score falls: 12h, 1d, 2w"
*/
WITH scores AS (
    SELECT chain, token_address, timestamp, series, service_score, top_10_adjusted, bundles
    FROM concentration_history
    SEMI JOIN watched USING (chain, token_address)
    WHERE service_score IS NOT NULL
),
falls AS (
    SELECT
        *,
        round(max(service_score) OVER lately - service_score, 6) AS fall,
        arg_max(timestamp, service_score) OVER lately AS highest_timestamp,
        max(service_score) OVER lately AS highest_score,
        round(lag(service_score) OVER history - service_score, 6) AS step,
        lag(top_10_adjusted) OVER history AS top_10_adjusted_before,
        lag(bundles) OVER history AS bundles_before
    FROM scores
    WINDOW
        history AS (PARTITION BY chain, token_address, series ORDER BY timestamp),
        lately AS (
            PARTITION BY chain, token_address, series
            ORDER BY timestamp
            RANGE BETWEEN to_seconds(CAST($within_seconds AS BIGINT)) PRECEDING AND CURRENT ROW
        )
),
alerts AS (
    SELECT
        *,
        lag(fall) OVER (PARTITION BY chain, token_address, series ORDER BY timestamp) >= $threshold AS was_reported
    FROM falls
)
SELECT
    chain,
    token_address,
    timestamp,
    token_address AS subject,
    CAST(timestamp AS VARCHAR) AS occasion,
    fall AS measured,
    to_json({
        'score': service_score,
        'highest_score': highest_score,
        'highest_timestamp': highest_timestamp,
        'top_10_adjusted': top_10_adjusted,
        'top_10_adjusted_before': top_10_adjusted_before,
        'bundles': bundles,
        'bundles_before': bundles_before
    }) AS evidence
FROM alerts
WHERE timestamp BETWEEN $since AND $until
    AND fall >= $threshold
    AND highest_timestamp < timestamp
    AND (coalesce(NOT was_reported, true) OR (step >= $threshold AND step <= fall))
ORDER BY timestamp, chain, token_address;
