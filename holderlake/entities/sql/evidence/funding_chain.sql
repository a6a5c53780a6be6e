-- Wallets of a chain of first transfers: each funded the next one, and nobody else, over up to 6 wallets.
-- Confidence: 0.6.
INSERT INTO links
WITH RECURSIVE single AS (
    SELECT any_value(id) AS id, funder, any_value(time) AS time
    FROM funded
    WHERE funder NOT IN (FROM hubs) AND id NOT IN (FROM hubs)
    GROUP BY funder
    HAVING count(*) = 1
),
chained AS (
    SELECT funder AS root, funder AS id, NULL::INTEGER AS through, 0 AS hops, time
    FROM single
    WHERE funder NOT IN (SELECT id FROM single)
    UNION ALL
    SELECT chained.root, single.id, single.funder, hops + 1, single.time
    FROM chained
    JOIN single ON single.funder = chained.id
    WHERE hops < 5
)
SELECT 'funding_chain', root, id, through, 0.6, 1, time, time
FROM chained
QUALIFY count(*) OVER (PARTITION BY root) >= 3;
