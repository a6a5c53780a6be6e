-- The token's newest name and symbol, the decimals of the own store if they are assumed, and its first and last instant.
WITH known AS (
    SELECT timestamp, 'maps' AS kind FROM maps WHERE chain = $chain AND token_address = $token
    UNION ALL
    SELECT DISTINCT timestamp, 'holders' FROM holders WHERE chain = $chain AND token_address = $token
),
named AS (
    SELECT
        arg_max(name, timestamp) AS name,
        arg_max(symbol, timestamp) AS symbol,
        min(min_date) AS first_transfer
    FROM tokens
    WHERE chain = $chain AND token_address = $token
)
SELECT
    named.*,
    (
        SELECT max(decimals)
        FROM stored_tokens
        WHERE has_assumed_decimals AND chain = $chain AND token_address = $token
    ) AS assumed_decimals,
    (
        SELECT bool_or(balances = 'different')
        FROM verified
        WHERE chain = $chain AND token_address = $token
    ) AS has_other_balances,
    min(known.timestamp) AS known_from,
    max(known.timestamp) AS known_to,
    min(known.timestamp) FILTER (known.timestamp BETWEEN $period_start AND $period_end) AS first_instant,
    max(known.timestamp) FILTER (known.timestamp BETWEEN $period_start AND $period_end) AS last_instant,
    min(known.timestamp) FILTER (known.kind = 'maps' AND known.timestamp BETWEEN $period_start AND $period_end) AS first_map,
    max(known.timestamp) FILTER (known.kind = 'maps' AND known.timestamp BETWEEN $period_start AND $period_end) AS last_map,
    count(DISTINCT known.timestamp) FILTER (known.timestamp BETWEEN $period_start AND $period_end) AS instants
FROM named
LEFT JOIN known ON true
GROUP BY ALL;
