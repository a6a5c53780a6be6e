-- Payments with the wallet that pays. A hub pays nobody: it is a faucet or an airdrop.
SELECT *
FROM (
    SELECT payments.*, coalesce(passed.payer, payments.sender) AS payer
    FROM payments
    LEFT JOIN passed ON passed.tx = payments.tx AND passed.token = payments.token AND passed.sender = payments.sender
) AS paid
WHERE payer NOT IN (SELECT id FROM hubs)
