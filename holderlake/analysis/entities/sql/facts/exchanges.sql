-- Exchanges: addresses with a label as one, and hubs by their counterparties without a label as something else.
SELECT id FROM degrees WHERE counterparties > $counterparties AND id NOT IN (SELECT id FROM wallets JOIN marked USING (address))
UNION
SELECT id FROM wallets JOIN marked ON marked.address = wallets.address WHERE is_exchange
