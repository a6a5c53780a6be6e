-- The newest instant at which a token's holders or map are known.
SELECT max(timestamp) AS at
FROM (
    SELECT max(timestamp) AS timestamp FROM holders WHERE chain = $chain AND token_address = $token
    UNION ALL
    SELECT max(timestamp) AS timestamp FROM maps WHERE chain = $chain AND token_address = $token
)
