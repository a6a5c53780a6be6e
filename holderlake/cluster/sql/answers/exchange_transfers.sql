-- Transfers between the wallets of each map and exchanges (or allow-listed contracts), as of each map's second, in
-- windows of time that enough wallets of any map share.
WITH relevant AS (
    SELECT DISTINCT address FROM map_wallets
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
        e.to_address AS to_address, e.address AS address, e.exchange AS exchange,
        e.second // $time_window AS time_window, e.second AS second, e.low AS low, e.middle AS middle, e.high AS high
    FROM ends AS e
    SEMI JOIN exchanges AS m ON e.exchange = m.address
    SEMI JOIN relevant AS c ON e.address = c.address
),
users AS (
    SELECT exchange, time_window, address FROM used GROUP BY exchange, time_window, address
),
shared AS (
    SELECT exchange, time_window FROM users GROUP BY exchange, time_window HAVING count(*) >= $time_links
),
narrowed AS (
    SELECT u.moved_chain AS moved_chain, u.moved_token AS moved_token, u.from_address AS from_address,
        u.to_address AS to_address, u.address AS address, u.exchange AS exchange, u.time_window AS time_window,
        u.second AS second, u.low AS low, u.middle AS middle, u.high AS high, x.chain IS NOT NULL AS is_indexed,
        s.since AS supernode_since
    FROM used AS u
    SEMI JOIN shared AS w ON u.exchange = w.exchange AND u.time_window = w.time_window
    LEFT JOIN indexed_tokens AS x ON u.moved_chain = x.chain AND u.moved_token = x.token_address
    LEFT JOIN supernodes AS s ON u.exchange = s.address
)
SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, n.moved_chain AS moved_chain,
    n.moved_token AS moved_token, n.from_address AS from_address, n.to_address AS to_address, n.address AS address,
    n.exchange AS exchange, n.time_window AS time_window, n.second AS second, n.low AS low, n.middle AS middle,
    n.high AS high, s.is_holder AS is_holder
FROM map_wallets AS s
JOIN narrowed AS n ON s.address = n.address
WHERE n.is_indexed AND n.second <= s.as_of AND NOT (s.is_supernode AND coalesce(n.supernode_since <= s.as_of, FALSE))
UNION ALL
SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, n.moved_chain AS moved_chain,
    n.moved_token AS moved_token, n.from_address AS from_address, n.to_address AS to_address, n.address AS address,
    n.exchange AS exchange, n.time_window AS time_window, n.second AS second, n.low AS low, n.middle AS middle,
    n.high AS high, s.is_holder AS is_holder
FROM map_wallets AS s
JOIN narrowed AS n ON s.address = n.address AND s.chain = n.moved_chain AND s.token_address = n.moved_token
WHERE NOT n.is_indexed AND n.second <= s.as_of
    AND NOT (s.is_supernode AND coalesce(n.supernode_since <= s.as_of, FALSE))
