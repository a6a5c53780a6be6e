-- Exchanges: addresses with a label as one, and hubs by their counterparties.
SELECT id FROM degrees WHERE counterparties > $counterparties
UNION
SELECT id FROM wallets JOIN marked ON marked.address = wallets.address WHERE is_exchange
