-- Requests for the token without rows.
SELECT timestamp, endpoint, code, reason
FROM failures
WHERE chain = $chain AND subject = $token AND timestamp BETWEEN $since AND $until
ORDER BY timestamp DESC, endpoint
LIMIT 20;
