-- The transfers of the view given, by numbers of addresses: wallets, tokens, and every_move (transfers).
CREATE TABLE wallets AS
SELECT CAST(row_number() OVER (ORDER BY address) - 1 AS INTEGER) AS id, address
FROM (SELECT from_address AS address FROM given UNION SELECT to_address FROM given);

CREATE TABLE tokens AS
SELECT CAST(row_number() OVER (ORDER BY chain, token_address) AS INTEGER) AS token, chain, token_address
FROM (SELECT DISTINCT chain, token_address FROM given);

-- Transfers of zero do not count, because anyone can make one between any two addresses.
CREATE TABLE every_move AS
SELECT
    senders.id AS sender,
    receivers.id AS receiver,
    tokens.token,
    block_time,
    CASE WHEN tx_hash IS NOT NULL THEN hash(given.chain, tx_hash) END AS tx,
    value,
    transfers
FROM given
JOIN wallets AS senders ON senders.address = given.from_address
JOIN wallets AS receivers ON receivers.address = given.to_address
JOIN tokens ON tokens.chain = given.chain AND tokens.token_address = given.token_address
WHERE senders.id <> receivers.id AND (value IS NULL OR value > 0);
