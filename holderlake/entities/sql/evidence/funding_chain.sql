-- Wallets of a chain of first transfers: each funded the next one, and nobody else, over up to 6 wallets.
-- Confidence: 0.6.
WITH single AS (
    SELECT min(id) AS id, funder, min(time) AS time
    FROM funded
    WHERE funder NOT IN (SELECT id FROM hubs) AND id NOT IN (SELECT id FROM hubs)
    GROUP BY funder
    HAVING count(*) = 1
),
hop_1 AS (
    SELECT funder AS root, id, funder AS through, time FROM single WHERE funder NOT IN (SELECT id FROM single)
),
hop_2 AS (
    SELECT hop_1.root, single.id, single.funder AS through, single.time FROM hop_1 JOIN single ON single.funder = hop_1.id
),
hop_3 AS (
    SELECT hop_2.root, single.id, single.funder AS through, single.time FROM hop_2 JOIN single ON single.funder = hop_2.id
),
hop_4 AS (
    SELECT hop_3.root, single.id, single.funder AS through, single.time FROM hop_3 JOIN single ON single.funder = hop_3.id
),
hop_5 AS (
    SELECT hop_4.root, single.id, single.funder AS through, single.time FROM hop_4 JOIN single ON single.funder = hop_4.id
),
chained AS (
    SELECT root, root AS id, CAST(NULL AS INTEGER) AS through, time FROM hop_1
    UNION ALL SELECT root, id, through, time FROM hop_1
    UNION ALL SELECT root, id, through, time FROM hop_2
    UNION ALL SELECT root, id, through, time FROM hop_3
    UNION ALL SELECT root, id, through, time FROM hop_4
    UNION ALL SELECT root, id, through, time FROM hop_5
)
SELECT root AS link, id, through, 0.6 AS confidence, 1 AS transfers, time AS first_time, time AS last_time
FROM chained
QUALIFY count(*) OVER (PARTITION BY root) >= 3
