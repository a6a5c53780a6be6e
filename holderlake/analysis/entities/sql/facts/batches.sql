-- Payments with the wallet that pays, and whether it is a hub, such as a faucet or an airdrop. The payer is null if several
-- wallets paid the contract that passes it on, or if a disperse tool pays and the data lack who paid it.
SELECT paid.*, coalesce(payer IN (SELECT id FROM hubs), false) AS is_of_hub
FROM (
    SELECT
        payments.*,
        payments.sender IN (SELECT id FROM wallets JOIN tools USING (address)) AS is_of_tool,
        CASE
            WHEN passed.sender IS NOT NULL THEN passed.payer
            WHEN payments.sender NOT IN (SELECT id FROM wallets JOIN tools USING (address)) THEN payments.sender
        END AS payer
    FROM payments
    LEFT JOIN passed ON passed.tx = payments.tx AND passed.token = payments.token AND passed.sender = payments.sender
) AS paid
