-- What the newest row about a token says, the second (unix) at which the source's data end if maps are later, the
-- decimals of the own store if they are assumed, whether the owners of its holders were searched, and the result of the
-- last comparison of its transfers with a node.
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
    EXISTS (FROM entity_searches)
    AND EXISTS (FROM stored_tokens WHERE chain = $chain AND token_address = $token) AS has_owners,
    verified.is_complete AS verified,
    verified.balances AS verified_balances,
    verified.last_block AS verified_block,
    CAST(epoch(verified.as_of) AS BIGINT) AS verified_as_of
FROM (SELECT $chain AS chain, $token AS token_address)
LEFT JOIN tokens USING (chain, token_address)
LEFT JOIN verified USING (chain, token_address)
ORDER BY timestamp DESC
LIMIT 1
