-- Tokens whose whales hold more than the supply. dbt's test passes if there are none.
SELECT chain, token_address, sum(share) AS share
FROM {{ ref('whales') }}
GROUP BY chain, token_address
HAVING sum(share) > 1.000001
