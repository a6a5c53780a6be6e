-- Grouped transfers among the nodes of each map, of its own token and of indexed ones; none between two supernodes.
WITH relevant AS (
    SELECT DISTINCT address FROM map_wallets
),
near AS (
    SELECT c.chain AS chain, c.token_address AS token_address, c.from_address AS from_address,
        c.to_address AS to_address, c.known_at AS known_at, c.until AS until, c.low AS low, c.middle AS middle,
        c.high AS high, c.number AS number, c.begun AS begun, c.ended AS ended, c.is_indexed AS is_indexed
    FROM edges AS c
    SEMI JOIN relevant AS f ON c.from_address = f.address
    SEMI JOIN relevant AS t ON c.to_address = t.address
),
between_nodes AS (
    SELECT a.chain AS chain, a.token_address AS token_address, a.as_of AS as_of, n.from_address AS from_address,
        n.to_address AS to_address, n.chain AS moved_chain, n.token_address AS moved_token, n.low AS low,
        n.middle AS middle, n.high AS high, n.number AS number, n.begun AS begun, n.ended AS ended
    FROM near AS n
    JOIN map_wallets AS a ON n.from_address = a.address
    JOIN map_wallets AS b
        ON n.to_address = b.address AND a.chain = b.chain AND a.token_address = b.token_address AND a.as_of = b.as_of
    WHERE n.is_indexed AND n.known_at <= a.as_of AND n.until >= a.as_of AND NOT (a.is_supernode AND b.is_supernode)
    UNION ALL
    SELECT a.chain AS chain, a.token_address AS token_address, a.as_of AS as_of, n.from_address AS from_address,
        n.to_address AS to_address, n.chain AS moved_chain, n.token_address AS moved_token, n.low AS low,
        n.middle AS middle, n.high AS high, n.number AS number, n.begun AS begun, n.ended AS ended
    FROM near AS n
    JOIN map_wallets AS a ON n.from_address = a.address AND n.chain = a.chain AND n.token_address = a.token_address
    JOIN map_wallets AS b
        ON n.to_address = b.address AND a.chain = b.chain AND a.token_address = b.token_address AND a.as_of = b.as_of
    WHERE NOT n.is_indexed AND n.known_at <= a.as_of AND n.until >= a.as_of
        AND NOT (a.is_supernode AND b.is_supernode)
)
SELECT
    chain, token_address, as_of, from_address, to_address, moved_chain, moved_token,
    sum(low) AS low_moved, sum(middle) AS middle_moved, sum(high) AS high_moved, sum(number) AS transfers,
    min(begun) AS first_second, max(ended) AS last_second
FROM between_nodes
GROUP BY chain, token_address, as_of, from_address, to_address, moved_chain, moved_token
