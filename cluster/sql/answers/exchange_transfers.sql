-- Transfers between shown holders and exchanges (or allow-listed contracts), as of each map's second.
WITH shown AS (
    SELECT chain, token_address, as_of, address, is_supernode FROM top WHERE is_shown
),
concerned AS (
    SELECT DISTINCT address FROM shown
),
ends AS (
    SELECT chain, token_address, from_address, to_address, from_address AS address, to_address AS exchange,
        second, low, middle, high
    FROM transfers
    WHERE from_address <> to_address AND is_something AND NOT is_opening
    UNION ALL
    SELECT chain, token_address, from_address, to_address, to_address AS address, from_address AS exchange,
        second, low, middle, high
    FROM transfers
    WHERE from_address <> to_address AND is_something AND NOT is_opening
),
used AS (
    SELECT e.chain AS moved_chain, e.token_address AS moved_token, e.from_address AS from_address,
        e.to_address AS to_address, e.address AS address, e.exchange AS exchange, e.second AS second, e.low AS low,
        e.middle AS middle, e.high AS high, x.chain IS NOT NULL AS is_indexed, s.since AS supernode_since
    FROM ends AS e
    SEMI JOIN exchanges AS m ON e.exchange = m.address
    SEMI JOIN concerned AS c ON e.address = c.address
    LEFT JOIN indexed AS x ON e.chain = x.chain AND e.token_address = x.token_address
    LEFT JOIN supernodes AS s ON e.exchange = s.address
)
SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, u.moved_chain AS moved_chain,
    u.moved_token AS moved_token, u.from_address AS from_address, u.to_address AS to_address, u.address AS address,
    u.exchange AS exchange, u.second // $time_window AS time_window, u.second AS second, u.low AS low,
    u.middle AS middle, u.high AS high
FROM shown AS s
JOIN used AS u ON s.address = u.address
WHERE u.second <= s.as_of
    AND (u.is_indexed OR (u.moved_chain = s.chain AND u.moved_token = s.token_address))
    AND NOT (s.is_supernode AND coalesce(u.supernode_since <= s.as_of, FALSE))
