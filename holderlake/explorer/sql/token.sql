-- What the newest row about a token says, and the second (unix) at which the source's data end if maps are later.
SELECT
    chain,
    token_address,
    name,
    symbol,
    (
        SELECT CAST(epoch(max(last_transfer)) AS BIGINT)
        FROM after_source_end
        WHERE chain = $chain AND token_address = $token
    ) AS data_end
FROM tokens
WHERE chain = $chain AND token_address = $token
ORDER BY timestamp DESC
LIMIT 1
