-- The number of counterparties of each address. Whom it pays through a contract that passes payments on is one too.
SELECT id, count(*) AS counterparties
FROM (
    SELECT a AS id, b AS other FROM ties
    UNION ALL
    SELECT b, a FROM ties
    UNION
    SELECT passed.payer, moves.receiver
    FROM passed
    JOIN moves ON moves.tx = passed.tx AND moves.token = passed.token AND moves.sender = passed.sender
    WHERE passed.payer IS NOT NULL
) AS met
GROUP BY id
