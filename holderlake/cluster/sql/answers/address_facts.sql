-- Details of the top holders and magic nodes as of their maps' seconds: distinct counterparties (all, those that sent
-- to the address, those that it sent to), the first transfer, and the label on the map's chain.
WITH nodes AS (
    SELECT chain, token_address, as_of, address FROM top
    UNION ALL
    SELECT chain, token_address, as_of, address FROM magic_nodes
),
requested AS (
    SELECT DISTINCT address, as_of FROM nodes
),
counterparties AS (
    SELECT
        q.address AS address,
        q.as_of AS as_of,
        sum(CASE WHEN q.as_of >= a.received_at OR q.as_of >= a.sent_at THEN 1 ELSE 0 END) AS degree,
        sum(CASE WHEN q.as_of >= a.received_at THEN 1 ELSE 0 END) AS inward,
        sum(CASE WHEN q.as_of >= a.sent_at THEN 1 ELSE 0 END) AS outward
    FROM requested AS q
    JOIN acquaintances AS a ON q.address = a.address
    GROUP BY q.address, q.as_of
)
SELECT
    n.chain AS chain,
    n.token_address AS token_address,
    n.as_of AS as_of,
    n.address AS address,
    CAST(coalesce(c.degree, 0) AS BIGINT) AS degree,
    CAST(coalesce(c.inward, 0) AS BIGINT) AS inward,
    CAST(coalesce(c.outward, 0) AS BIGINT) AS outward,
    CASE WHEN a.first_second <= n.as_of THEN a.first_second END AS begun,
    l.name AS name,
    l.entity_id AS entity_id,
    coalesce(l.kinds, 0) AS kinds
FROM nodes AS n
LEFT JOIN counterparties AS c ON n.address = c.address AND n.as_of = c.as_of
LEFT JOIN addresses AS a ON n.address = a.address
LEFT JOIN labels AS l ON n.address = l.address AND n.chain = l.chain
