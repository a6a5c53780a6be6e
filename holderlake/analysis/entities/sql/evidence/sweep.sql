-- A wallet and 3 wallets or more whose last transfer goes to it and empties them: they sent at least nine tenths of what
-- they received of the token. Level 2: of the chain's coin. Level 1: of another token, which may be sold to a pool.
WITH lasts AS (
    SELECT
        sender AS id,
        arg_max(receiver, (block_time, coalesce(tx, 0), receiver, token)) AS collector,
        arg_max(token, (block_time, coalesce(tx, 0), receiver, token)) AS token,
        max(block_time) AS time
    FROM moves
    WHERE block_time IS NOT NULL AND sender NOT IN (SELECT id FROM hubs)
    GROUP BY sender
),
gathered AS (
    SELECT id, collector, token, time
    FROM lasts
    WHERE collector NOT IN (SELECT id FROM hubs)
    QUALIFY count(*) OVER (PARTITION BY collector) >= 3
),
totals AS (
    SELECT id, sum(received) AS received, sum(sent) AS sent
    FROM (
        SELECT moves.receiver AS id, moves.value AS received, 0 AS sent
        FROM moves
        SEMI JOIN gathered ON gathered.id = moves.receiver AND gathered.token = moves.token
        UNION ALL
        SELECT moves.sender, 0, moves.value
        FROM moves
        SEMI JOIN gathered ON gathered.id = moves.sender AND gathered.token = moves.token
    ) AS flows
    GROUP BY id
),
swept AS (
    SELECT gathered.collector, gathered.id, gathered.time, tokens.is_coin
    FROM gathered
    JOIN totals ON totals.id = gathered.id
    JOIN tokens ON tokens.token = gathered.token
    WHERE totals.received > 0 AND totals.sent >= 0.9 * totals.received
    QUALIFY count(*) OVER (PARTITION BY gathered.collector) >= 3
),
members AS (
    SELECT collector, id, 1 AS transfers, time AS first_time, time AS last_time, is_coin FROM swept
    UNION ALL
    SELECT collector, collector, count(*), min(time), max(time), bool_and(is_coin) FROM swept GROUP BY collector
)
SELECT
    collector AS link,
    id,
    CASE WHEN id <> collector THEN collector END AS through,
    CASE WHEN bool_and(is_coin) OVER (PARTITION BY collector) THEN 2 ELSE 1 END AS level,
    transfers,
    first_time,
    last_time
FROM members
