-- The transfers by numbers of addresses, tokens and transactions. Transfers of zero do not count, because anyone can make
-- one between any two addresses.
SELECT
    senders.id AS sender,
    receivers.id AS receiver,
    tokens.token,
    given.block_time,
    hashed(given.tx_hash) AS tx,
    given.value,
    given.transfers
FROM given
JOIN wallets AS senders ON senders.address = given.from_address
JOIN wallets AS receivers ON receivers.address = given.to_address
JOIN tokens ON tokens.chain = given.chain AND tokens.token_address = given.token_address
WHERE senders.id <> receivers.id AND (given.value IS NULL OR given.value > 0)
