-- Pairs of addresses with transfers, and their number in each direction.
SELECT
    least(sender, receiver) AS a,
    greatest(sender, receiver) AS b,
    CAST(coalesce(sum(transfers) FILTER (sender < receiver), 0) AS BIGINT) AS forth,
    CAST(coalesce(sum(transfers) FILTER (sender > receiver), 0) AS BIGINT) AS back,
    min(block_time) AS first_time,
    max(block_time) AS last_time
FROM moves
GROUP BY least(sender, receiver), greatest(sender, receiver)
