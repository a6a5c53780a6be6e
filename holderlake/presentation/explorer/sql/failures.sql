-- Why a token has no map, or no holders, at an instant; where none is named, at the last one at which it failed.
SELECT DISTINCT endpoint, code, reason, strftime(timestamp, '%Y%m%dT%H%M%SZ') AS at
FROM failures
WHERE
    chain = $chain
    AND subject = $token
    AND place IS NULL
    AND timestamp = coalesce($at, (SELECT max(timestamp) FROM failures WHERE chain = $chain AND subject = $token))
ORDER BY endpoint
