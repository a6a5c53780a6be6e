-- Grouped transfers among the nodes of each map, of its own token and of indexed ones; none between two supernodes.
WITH concerned AS (
    SELECT DISTINCT address FROM on_map
),
days AS (
    SELECT chain, token_address, from_address, to_address, day, first_second AS known_at,
        low, middle, high, transfers, first_second, last_second
    FROM daily_edges
    SEMI JOIN concerned ON daily_edges.from_address = concerned.address
),
near AS (
    SELECT d.chain AS chain, d.token_address AS token_address, d.from_address AS from_address,
        d.to_address AS to_address, d.day AS day, d.low AS low, d.middle AS middle, d.high AS high,
        d.transfers AS transfers, d.first_second AS first_second, d.last_second AS last_second,
        x.chain IS NOT NULL AS is_indexed
    FROM days AS d
    SEMI JOIN concerned AS c ON d.to_address = c.address
    LEFT JOIN indexed AS x ON d.chain = x.chain AND d.token_address = x.token_address
),
open_days AS (
    SELECT DISTINCT open_day FROM instants
),
opened AS (
    SELECT t.chain AS chain, t.token_address AS token_address, t.from_address AS from_address,
        t.to_address AS to_address, t.day AS day, t.second AS second, t.low AS low, t.middle AS middle,
        t.high AS high
    FROM transfers AS t
    SEMI JOIN open_days AS d ON t.day = d.open_day
    SEMI JOIN concerned AS c ON t.from_address = c.address
    WHERE t.from_address <> t.to_address AND t.is_something AND NOT t.is_opening
),
open_near AS (
    SELECT o.*, x.chain IS NOT NULL AS is_indexed
    FROM opened AS o
    LEFT JOIN indexed AS x ON o.chain = x.chain AND o.token_address = x.token_address
),
ends AS (
    SELECT a.chain AS chain, a.token_address AS token_address, a.as_of AS as_of, i.open_day AS open_day,
        a.address AS address, a.is_supernode AS is_supernode
    FROM on_map AS a
    JOIN instants AS i ON a.as_of = i.second
),
between_nodes AS (
    SELECT a.chain AS chain, a.token_address AS token_address, a.as_of AS as_of, n.from_address AS from_address,
        n.to_address AS to_address, n.chain AS moved_chain, n.token_address AS moved_token, n.low AS low,
        n.middle AS middle, n.high AS high, n.transfers AS transfers, n.first_second AS first_second,
        n.last_second AS last_second
    FROM near AS n
    JOIN ends AS a ON n.from_address = a.address
    JOIN on_map AS b
        ON n.to_address = b.address AND a.chain = b.chain AND a.token_address = b.token_address AND a.as_of = b.as_of
    WHERE n.day < a.open_day
        AND (n.is_indexed OR (n.chain = a.chain AND n.token_address = a.token_address))
        AND NOT (a.is_supernode AND b.is_supernode)
    UNION ALL
    SELECT a.chain AS chain, a.token_address AS token_address, a.as_of AS as_of, n.from_address AS from_address,
        n.to_address AS to_address, n.chain AS moved_chain, n.token_address AS moved_token, n.low AS low,
        n.middle AS middle, n.high AS high, CAST(1 AS BIGINT) AS transfers, n.second AS first_second,
        n.second AS last_second
    FROM open_near AS n
    JOIN ends AS a ON n.from_address = a.address AND n.day = a.open_day
    JOIN on_map AS b
        ON n.to_address = b.address AND a.chain = b.chain AND a.token_address = b.token_address AND a.as_of = b.as_of
    WHERE n.second <= a.as_of
        AND (n.is_indexed OR (n.chain = a.chain AND n.token_address = a.token_address))
        AND NOT (a.is_supernode AND b.is_supernode)
)
SELECT
    chain, token_address, as_of, from_address, to_address, moved_chain, moved_token,
    sum(low) AS low_moved, sum(middle) AS middle_moved, sum(high) AS high_moved, sum(transfers) AS number,
    min(first_second) AS begun, max(last_second) AS ended
FROM between_nodes
GROUP BY chain, token_address, as_of, from_address, to_address, moved_chain, moved_token
