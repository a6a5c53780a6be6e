-- The first transfer that each wallet received of a token that funds, and whether that is the chain's coin; of wallets whose
-- first transfers the data have.
SELECT
    moves.receiver AS id,
    arg_min(moves.sender, (moves.block_time, coalesce(moves.tx, 0), moves.sender)) AS funder,
    arg_min(moves.tx, (moves.block_time, coalesce(moves.tx, 0), moves.sender)) AS tx,
    min(moves.block_time) AS time,
    bool_and(tokens.is_coin) AS is_coin
FROM moves
JOIN tokens ON tokens.token = moves.token
WHERE tokens.funds AND moves.block_time IS NOT NULL AND moves.receiver NOT IN (SELECT id FROM uncovered)
GROUP BY moves.receiver
