-- What shown holders dealt with each address that several holders of any map dealt with, as of each map's second, of the
-- tokens that count. A transfer between two of them stands twice.
WITH shown AS (
    SELECT chain, token_address, as_of, address FROM top WHERE is_shown
),
concerned AS (
    SELECT DISTINCT address FROM shown
),
owned AS (
    SELECT chain, token_address, from_address AS address, to_address AS other, known_at, until, number, is_indexed
    FROM counted
    UNION ALL
    SELECT chain, token_address, to_address AS address, from_address AS other, known_at, until, number, is_indexed
    FROM counted
),
theirs AS (
    SELECT chain, token_address, address, other, known_at, until, number, is_indexed
    FROM owned
    SEMI JOIN concerned USING (address)
),
pairs AS (
    SELECT other, address FROM theirs GROUP BY other, address
),
shared AS (
    SELECT other FROM pairs GROUP BY other HAVING count(*) >= $magic_links
),
narrowed AS (
    SELECT chain, token_address, address, other, known_at, until, number, is_indexed
    FROM theirs
    SEMI JOIN shared USING (other)
)
SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, n.address AS address, n.other AS other,
    n.number AS number
FROM shown AS s
JOIN narrowed AS n ON s.address = n.address
WHERE n.is_indexed AND n.known_at <= s.as_of AND n.until >= s.as_of
UNION ALL
SELECT s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, n.address AS address, n.other AS other,
    n.number AS number
FROM shown AS s
JOIN narrowed AS n ON s.address = n.address AND s.chain = n.chain AND s.token_address = n.token_address
WHERE NOT n.is_indexed AND n.known_at <= s.as_of AND n.until >= s.as_of
