-- Each token's last map of a month.
SELECT chain, token_address, date_trunc('month', timestamp) AS month, service_score, top_10_share, nakamoto_coefficient
FROM {{ source('holderlake', 'concentration_history') }}
QUALIFY row_number() OVER (PARTITION BY chain, token_address, month ORDER BY timestamp DESC) = 1
