-- Transfers between shown holders and each address that has transfers with several holders of any map, as of each map's
-- second, of the tokens that count. A transfer between two shown holders has two rows.
WITH shown AS (
    SELECT chain, token_address, as_of, address FROM top WHERE is_shown
),
relevant AS (
    SELECT DISTINCT address FROM shown
),
both_ways AS (
    SELECT chain, token_address, from_address AS address, to_address AS other, known_at, until, number, is_indexed
    FROM edges
    UNION ALL
    SELECT chain, token_address, to_address AS address, from_address AS other, known_at, until, number, is_indexed
    FROM edges
),
relevant_edges AS (
    SELECT chain, token_address, address, other, known_at, until, number, is_indexed
    FROM both_ways
    SEMI JOIN relevant USING (address)
),
pairs AS (
    SELECT other, address FROM relevant_edges GROUP BY other, address
),
shared AS (
    SELECT other FROM pairs GROUP BY other HAVING count(*) >= $magic_links
),
narrowed AS (
    SELECT chain, token_address, address, other, known_at, until, number, is_indexed
    FROM relevant_edges
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
