-- A wallet and 3 wallets or more whose last transfer goes to it and empties them: they sent at least nine tenths of what
-- they received of the token. Confidence: 0.7.
INSERT INTO links
WITH lasts AS (
    SELECT sender AS id, unnest(arg_max({collector: receiver, token: token}, (block_time, tx, receiver))), max(block_time) AS time
    FROM moves
    WHERE sender NOT IN (FROM hubs)
    GROUP BY sender
),
gathered AS (
    FROM lasts
    WHERE collector NOT IN (FROM hubs)
    QUALIFY count(*) OVER (PARTITION BY collector) >= 3
),
totals AS (
    SELECT id, sum(received) AS received, sum(sent) AS sent
    FROM (
        SELECT receiver AS id, value AS received, 0 AS sent
        FROM moves
        SEMI JOIN gathered ON gathered.id = moves.receiver AND gathered.token = moves.token
        UNION ALL
        SELECT sender, 0, value
        FROM moves
        SEMI JOIN gathered ON gathered.id = moves.sender AND gathered.token = moves.token
    )
    GROUP BY id
),
swept AS (
    SELECT collector, id, time
    FROM gathered
    JOIN totals USING (id)
    WHERE received > 0 AND sent >= 0.9 * received
    QUALIFY count(*) OVER (PARTITION BY collector) >= 3
)
SELECT 'sweep', collector, id, collector, 0.7, 1, time, time FROM swept
UNION ALL
SELECT 'sweep', collector, collector, collector, 0.7, count(*), min(time), max(time) FROM swept GROUP BY collector;
