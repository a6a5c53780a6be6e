-- The entities, as in the file entities.parquet.
WITH strongest AS (
    SELECT id, max(confidence) AS confidence
    FROM (SELECT a AS id, confidence FROM joins UNION ALL SELECT b, confidence FROM joins)
    GROUP BY id
),
evidence AS (
    SELECT id, list_sort(list(DISTINCT kind)) AS kinds
    FROM links
    SEMI JOIN members USING (id)
    GROUP BY id
)
SELECT
    named.address AS entity,
    wallets.address,
    count(*) OVER (PARTITION BY root) AS wallets,
    strongest.confidence,
    evidence.kinds,
    getvariable('preset') AS preset,
    getvariable('as_of') AS as_of
FROM members
JOIN wallets ON wallets.id = members.id
JOIN wallets AS named ON named.id = root
JOIN strongest ON strongest.id = members.id
JOIN evidence ON evidence.id = members.id
ORDER BY entity, wallets.address
