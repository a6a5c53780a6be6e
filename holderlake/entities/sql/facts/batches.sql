-- Payments with the wallet that pays, without those of hubs: faucets and airdrops. The payer is null if several wallets
-- paid the contract that passes it on, or if a disperse tool pays and the data lack who paid it.
SELECT *
FROM (
    SELECT
        payments.*,
        CASE
            WHEN passed.sender IS NOT NULL THEN passed.payer
            WHEN payments.sender NOT IN (SELECT id FROM wallets JOIN tools USING (address)) THEN payments.sender
        END AS payer
    FROM payments
    LEFT JOIN passed ON passed.tx = payments.tx AND passed.token = payments.token AND passed.sender = payments.sender
) AS paid
WHERE payer IS NULL OR payer NOT IN (SELECT id FROM hubs)
