-- Wallets that act together: two of them send to the same address in the same minute, at least 3 times, and at least half
-- of the times that the less active one does so. Minutes with more than 20 such wallets do not count.
WITH acts AS (
    SELECT DISTINCT receiver AS target, block_time // 60 AS minute, sender AS id
    FROM moves
    WHERE sender NOT IN (SELECT id FROM hubs)
),
counted AS (
    SELECT target, id, count(*) AS acts
    FROM acts
    GROUP BY target, id
    HAVING count(*) >= 3
),
together AS (
    SELECT acts.target, acts.minute, acts.id
    FROM acts
    SEMI JOIN counted ON counted.target = acts.target AND counted.id = acts.id
    QUALIFY count(*) OVER (PARTITION BY acts.target, acts.minute) BETWEEN 2 AND 20
),
met AS (
    SELECT
        one.target,
        one.id AS a,
        other.id AS b,
        count(*) AS times,
        min(one.minute) * 60 AS first_time,
        max(one.minute) * 60 AS last_time
    FROM together AS one
    JOIN together AS other ON one.target = other.target AND one.minute = other.minute AND one.id < other.id
    GROUP BY one.target, one.id, other.id
    HAVING count(*) >= 3
)
SELECT
    met.a,
    met.b,
    met.times AS transfers,
    met.first_time,
    met.last_time
FROM met
JOIN counted AS of_a ON of_a.target = met.target AND of_a.id = met.a
JOIN counted AS of_b ON of_b.target = met.target AND of_b.id = met.b
WHERE 2 * met.times >= least(of_a.acts, of_b.acts)
