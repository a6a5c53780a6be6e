-- The entities, as in the file entities.parquet.
WITH strongest AS (
    SELECT id, max(confidence) AS confidence
    FROM (SELECT a AS id, confidence FROM joins UNION ALL SELECT b, confidence FROM joins) AS ends
    GROUP BY id
),
evidence AS (
    SELECT links.id, list_sort(list(DISTINCT links.kind)) AS kinds
    FROM links
    SEMI JOIN members ON members.id = links.id
    GROUP BY links.id
)
SELECT
    named.address AS entity,
    wallets.address,
    count(*) OVER (PARTITION BY members.root) AS wallets,
    strongest.confidence,
    evidence.kinds,
    certain.address AS certain_entity,
    CAST($as_of AS BIGINT) AS as_of
FROM members
JOIN wallets ON wallets.id = members.id
JOIN wallets AS named ON named.id = members.root
JOIN strongest ON strongest.id = members.id
JOIN evidence ON evidence.id = members.id
LEFT JOIN certain_members ON certain_members.id = members.id
LEFT JOIN wallets AS certain ON certain.id = certain_members.root
ORDER BY entity, wallets.address
