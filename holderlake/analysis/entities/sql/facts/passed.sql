-- The wallet that paid the sender of a payment in the same transaction; null if several did. The sender then is a
-- contract that passes it on.
SELECT payments.tx, payments.token, payments.sender, CASE WHEN count(DISTINCT moves.sender) = 1 THEN min(moves.sender) END AS payer
FROM payments
JOIN moves ON moves.tx = payments.tx AND moves.token = payments.token AND moves.receiver = payments.sender
GROUP BY payments.tx, payments.token, payments.sender
