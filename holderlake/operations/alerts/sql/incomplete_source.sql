-- Alert when the newest comparison of a watched token's stored transfers with a node ('holderlake import verify') found at least
-- the threshold of rows that differ and blocks that were never imported. One alert for each last block of a check. The
-- subject is the token.
/*
table = "warehouse"
sentence = "transfers differ from the node's in {measured:.0f} rows or blocks ({threshold:g} or more)"
unit = "wrong rows and blocks"
options.threshold = 1
is_of_head = false
*/
SELECT
    chain,
    token_address,
    CAST($until AS TIMESTAMP) AS timestamp,
    token_address AS subject,
    CAST(last_block AS VARCHAR) AS occasion,
    missing_rows + extra_rows + unread_blocks AS measured,
    to_json({
        'checked_at': checked_at,
        'source': source,
        'first_block': first_block,
        'last_block': last_block,
        'missing_rows': missing_rows,
        'extra_rows': extra_rows,
        'unread_blocks': unread_blocks,
        'first_difference': first_difference,
        'last_difference': last_difference
    }) AS evidence
FROM verified
JOIN watched USING (chain, token_address)
WHERE missing_rows + extra_rows + unread_blocks >= $threshold AND checked_at BETWEEN $since AND $until
ORDER BY chain, token_address;
