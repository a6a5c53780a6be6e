-- Addresses that join no wallets.
SELECT id FROM degrees WHERE counterparties > $counterparties
UNION
SELECT id FROM wallets JOIN marked ON marked.address = wallets.address
UNION
SELECT id FROM wallets JOIN tokens ON tokens.token_address = wallets.address
UNION
SELECT sender FROM passed
