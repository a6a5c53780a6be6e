-- Payments of one token to 3 receivers or more in one transaction.
WITH senders AS (
    SELECT tx, token, sender
    FROM moves
    WHERE tx IS NOT NULL
    GROUP BY tx, token, sender
    HAVING count(*) >= 3
)
SELECT
    moves.tx,
    moves.token,
    moves.sender,
    avg(moves.value) AS mean,
    stddev_pop(moves.value) AS spread,
    min(moves.block_time) AS time
FROM moves
SEMI JOIN senders ON senders.tx = moves.tx AND senders.token = moves.token AND senders.sender = moves.sender
GROUP BY moves.tx, moves.token, moves.sender
HAVING count(DISTINCT moves.receiver) >= 3
