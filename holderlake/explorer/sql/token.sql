-- What the newest row about a token says, the second (unix) at which the source's data end if maps are later, the
-- decimals of the own store if they are assumed, and the result of the last comparison of its transfers with a node.
SELECT
    chain,
    token_address,
    name,
    symbol,
    (
        SELECT CAST(epoch(max(last_transfer)) AS BIGINT)
        FROM after_source_end
        WHERE chain = $chain AND token_address = $token
    ) AS data_end,
    (
        SELECT max(decimals)
        FROM stored_tokens
        WHERE has_assumed_decimals AND chain = $chain AND token_address = $token
    ) AS assumed_decimals,
    verified.is_complete AS verified,
    verified.balances AS verified_balances,
    verified.last_block AS verified_block,
    CAST(epoch(verified.as_of) AS BIGINT) AS verified_as_of
FROM tokens
LEFT JOIN verified USING (chain, token_address)
WHERE chain = $chain AND token_address = $token
ORDER BY timestamp DESC
LIMIT 1
