-- Wallets whose first transfers the data lack: they sent a token that funds before they received one.
SELECT id
FROM (
    SELECT sender AS id, block_time AS sent, CAST(NULL AS BIGINT) AS received, token FROM moves
    UNION ALL
    SELECT receiver, NULL, block_time, token FROM moves
) AS ends
JOIN tokens ON tokens.token = ends.token
WHERE tokens.funds
GROUP BY id
HAVING min(sent) < min(received) OR (min(sent) IS NOT NULL AND min(received) IS NULL)
