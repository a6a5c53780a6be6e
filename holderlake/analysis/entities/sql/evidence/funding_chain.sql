-- Wallets of a chain of first transfers: each funded only the next one, over 3 to 6 wallets.
-- Level 2: with the chain's coin. Level 1: with tokens, which may be sold on.
WITH single AS (
    SELECT min(id) AS id, funder, min(time) AS time, bool_and(is_coin) AS is_coin
    FROM funded
    WHERE funder NOT IN (SELECT id FROM hubs) AND id NOT IN (SELECT id FROM hubs)
    GROUP BY funder
    HAVING count(*) = 1
),
hop_1 AS (
    SELECT funder AS root, id, funder AS through, time, is_coin FROM single WHERE funder NOT IN (SELECT id FROM single)
),
hop_2 AS (
    SELECT hop_1.root, single.id, single.funder AS through, single.time, single.is_coin FROM hop_1 JOIN single ON single.funder = hop_1.id
),
hop_3 AS (
    SELECT hop_2.root, single.id, single.funder AS through, single.time, single.is_coin FROM hop_2 JOIN single ON single.funder = hop_2.id
),
hop_4 AS (
    SELECT hop_3.root, single.id, single.funder AS through, single.time, single.is_coin FROM hop_3 JOIN single ON single.funder = hop_3.id
),
hop_5 AS (
    SELECT hop_4.root, single.id, single.funder AS through, single.time, single.is_coin FROM hop_4 JOIN single ON single.funder = hop_4.id
),
chained AS (
    SELECT root, root AS id, CAST(NULL AS INTEGER) AS through, time, is_coin FROM hop_1
    UNION ALL SELECT root, id, through, time, is_coin FROM hop_1
    UNION ALL SELECT root, id, through, time, is_coin FROM hop_2
    UNION ALL SELECT root, id, through, time, is_coin FROM hop_3
    UNION ALL SELECT root, id, through, time, is_coin FROM hop_4
    UNION ALL SELECT root, id, through, time, is_coin FROM hop_5
)
SELECT
    root AS link,
    id,
    through,
    CASE WHEN bool_and(is_coin) OVER (PARTITION BY root) THEN 2 ELSE 1 END AS level,
    1 AS transfers, time AS first_time, time AS last_time
FROM chained
QUALIFY count(*) OVER (PARTITION BY root) >= 3
