-- Pairs of addresses with transfers, and their number and period in each direction.
SELECT
    least(sender, receiver) AS a,
    greatest(sender, receiver) AS b,
    CAST(coalesce(sum(transfers) FILTER (sender < receiver), 0) AS BIGINT) AS forth,
    CAST(coalesce(sum(transfers) FILTER (sender > receiver), 0) AS BIGINT) AS back,
    min(block_time) FILTER (sender < receiver) AS first_forth,
    max(block_time) FILTER (sender < receiver) AS last_forth,
    min(block_time) FILTER (sender > receiver) AS first_back,
    max(block_time) FILTER (sender > receiver) AS last_back
FROM moves
GROUP BY least(sender, receiver), greatest(sender, receiver)
