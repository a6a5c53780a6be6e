-- What shown holders sent and received, as of each of their maps' seconds, of the tokens that count: closed days by the
-- day, the open day by the transfer. A transfer between two of them stands twice.
WITH shown AS (
    SELECT chain, token_address, as_of, address FROM top WHERE is_shown
),
concerned AS (
    SELECT DISTINCT address FROM shown
),
days AS (
    SELECT chain, token_address, from_address, to_address, day, first_second AS second, transfers
    FROM daily_edges
),
owned AS (
    SELECT chain, token_address, from_address AS address, to_address AS other, day, second, transfers FROM days
    UNION ALL
    SELECT chain, token_address, to_address AS address, from_address AS other, day, second, transfers FROM days
),
counted AS (
    SELECT o.chain AS chain, o.token_address AS token_address, o.address AS address, o.other AS other, o.day AS day,
        o.transfers AS transfers, x.chain IS NOT NULL AS is_indexed
    FROM owned AS o
    SEMI JOIN concerned AS c ON o.address = c.address
    LEFT JOIN indexed AS x ON o.chain = x.chain AND o.token_address = x.token_address
),
open_days AS (
    SELECT DISTINCT open_day FROM instants
),
opened AS (
    SELECT t.chain AS chain, t.token_address AS token_address, t.from_address AS from_address,
        t.to_address AS to_address, t.day AS day, t.second AS second
    FROM transfers AS t
    SEMI JOIN open_days AS d ON t.day = d.open_day
    WHERE t.from_address <> t.to_address AND t.is_something AND NOT t.is_opening
),
open_owned AS (
    SELECT chain, token_address, from_address AS address, to_address AS other, day, second FROM opened
    UNION ALL
    SELECT chain, token_address, to_address AS address, from_address AS other, day, second FROM opened
),
open_counted AS (
    SELECT o.chain AS chain, o.token_address AS token_address, o.address AS address, o.other AS other, o.day AS day,
        o.second AS second, x.chain IS NOT NULL AS is_indexed
    FROM open_owned AS o
    SEMI JOIN concerned AS c ON o.address = c.address
    LEFT JOIN indexed AS x ON o.chain = x.chain AND o.token_address = x.token_address
)
SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, c.address AS address, c.other AS other,
    c.transfers AS transfers
FROM shown AS s
JOIN instants AS i ON s.as_of = i.second
JOIN counted AS c ON s.address = c.address
WHERE c.day < i.open_day AND (c.is_indexed OR (c.chain = s.chain AND c.token_address = s.token_address))
UNION ALL
SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, c.address AS address, c.other AS other,
    CAST(1 AS BIGINT) AS transfers
FROM shown AS s
JOIN instants AS i ON s.as_of = i.second
JOIN open_counted AS c ON s.address = c.address AND i.open_day = c.day
WHERE c.second <= s.as_of AND (c.is_indexed OR (c.chain = s.chain AND c.token_address = s.token_address))
