-- The wallet that paid the sender of a payment in the same transaction. The sender then is a contract that passes it on.
SELECT payments.tx, payments.token, payments.sender, min(moves.sender) AS payer
FROM payments
JOIN moves ON moves.tx = payments.tx AND moves.token = payments.token AND moves.receiver = payments.sender
GROUP BY payments.tx, payments.token, payments.sender
HAVING count(DISTINCT moves.sender) = 1
