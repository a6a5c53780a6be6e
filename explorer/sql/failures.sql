-- Why a token has no map, or no holders, at an instant.
SELECT DISTINCT endpoint, code, reason
FROM failures
WHERE chain = $chain AND subject = $token AND timestamp = $at
ORDER BY endpoint
