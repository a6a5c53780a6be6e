-- Pairs of addresses with transfers, their number and period in each direction, and whether the data are complete for some.
SELECT
    least(sender, receiver) AS a,
    greatest(sender, receiver) AS b,
    CAST(coalesce(sum(transfers) FILTER (sender < receiver), 0) AS BIGINT) AS forth,
    CAST(coalesce(sum(transfers) FILTER (sender > receiver), 0) AS BIGINT) AS back,
    min(block_time) FILTER (sender < receiver) AS first_forth,
    max(block_time) FILTER (sender < receiver) AS last_forth,
    min(block_time) FILTER (sender > receiver) AS first_back,
    max(block_time) FILTER (sender > receiver) AS last_back,
    bool_or(is_complete) AS is_complete
FROM moves
JOIN tokens ON tokens.token = moves.token
GROUP BY least(sender, receiver), greatest(sender, receiver)
