-- The number of links of each kind.
SELECT kind, count(DISTINCT link) AS links FROM links GROUP BY kind ORDER BY kind
