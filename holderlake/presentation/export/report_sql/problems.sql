-- Known problems of the token's data: errors first, then warnings and facts, the newest first.
SELECT severity, issue, timestamp, family, found, what
FROM data_quality
WHERE
    chain = $chain
    AND subject = $token
    AND timestamp BETWEEN $period_start AND $period_end
    AND issue <> 'odd_address' -- it reads the addresses of all tokens
ORDER BY CASE severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, timestamp DESC, issue, family, what
LIMIT 40;
