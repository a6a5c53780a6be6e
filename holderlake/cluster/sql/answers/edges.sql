-- Sums of the transfers between two addresses of a token, up to the first requested second that includes them: closed
-- days together, the open day separately. Only requested and indexed tokens, which maps can show.
WITH known AS (
    SELECT
        e.chain AS chain, e.token_address AS token_address, e.from_address AS from_address,
        e.to_address AS to_address, d.known_at AS known_at, CAST(NULL AS BIGINT) AS until,
        sum(e.low) AS low_moved, sum(e.middle) AS middle_moved, sum(e.high) AS high_moved,
        CAST(sum(e.transfers) AS BIGINT) AS number, min(e.first_second) AS begun, max(e.last_second) AS ended
    FROM daily_edges AS e
    JOIN days AS d ON e.day = d.day
    GROUP BY e.chain, e.token_address, e.from_address, e.to_address, d.known_at
),
opened AS (
    SELECT
        t.chain AS chain, t.token_address AS token_address, t.from_address AS from_address,
        t.to_address AS to_address, i.second AS known_at, i.second AS until,
        sum(t.low) AS low_moved, sum(t.middle) AS middle_moved, sum(t.high) AS high_moved,
        count(*) AS number, min(t.second) AS begun, max(t.second) AS ended
    FROM transfers AS t
    JOIN instants AS i ON t.day = i.open_day AND t.second <= i.second
    WHERE t.from_address <> t.to_address AND t.is_something AND NOT t.is_opening
    GROUP BY t.chain, t.token_address, t.from_address, t.to_address, i.second
),
moved AS (
    SELECT chain, token_address, from_address, to_address, known_at, until, low_moved, middle_moved, high_moved,
        number, begun, ended
    FROM known
    UNION ALL
    SELECT chain, token_address, from_address, to_address, known_at, until, low_moved, middle_moved, high_moved,
        number, begun, ended
    FROM opened
),
relevant AS (
    SELECT DISTINCT chain, token_address FROM requested_tokens
)
SELECT
    m.chain AS chain, m.token_address AS token_address, m.from_address AS from_address, m.to_address AS to_address,
    m.known_at AS known_at, coalesce(m.until, 9223372036854775807) AS until, m.low_moved AS low,
    m.middle_moved AS middle, m.high_moved AS high, m.number AS number, m.begun AS begun, m.ended AS ended,
    x.chain IS NOT NULL AS is_indexed
FROM moved AS m
LEFT JOIN indexed_tokens AS x ON m.chain = x.chain AND m.token_address = x.token_address
LEFT JOIN relevant AS c ON m.chain = c.chain AND m.token_address = c.token_address
WHERE x.chain IS NOT NULL OR c.chain IS NOT NULL
