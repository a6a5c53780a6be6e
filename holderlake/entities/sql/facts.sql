-- The tables that all kinds of evidence read, from the view moves (the transfers up to an instant): ties (pairs of
-- addresses), payments (to many receivers), hubs (addresses that join no wallets), exchanges, batches (payments with their
-- payers), distributors (who pay in batches again and again) and funded (first transfers). And links, without rows.
CREATE OR REPLACE TABLE ties AS
SELECT
    least(sender, receiver) AS a,
    greatest(sender, receiver) AS b,
    CAST(coalesce(sum(transfers) FILTER (sender < receiver), 0) AS BIGINT) AS forth,
    CAST(coalesce(sum(transfers) FILTER (sender > receiver), 0) AS BIGINT) AS back,
    min(block_time) AS first_time,
    max(block_time) AS last_time
FROM moves
GROUP BY ALL;

CREATE OR REPLACE TABLE degrees AS
SELECT id, count(*) AS counterparties
FROM (SELECT a AS id FROM ties UNION ALL SELECT b FROM ties)
GROUP BY id;

-- Payments of one token to 3 receivers or more in one transaction.
CREATE OR REPLACE TABLE payments AS
WITH senders AS (
    SELECT tx, token, sender
    FROM moves
    WHERE tx IS NOT NULL
    GROUP BY ALL
    HAVING count(*) >= 3
)
SELECT
    tx, token, sender,
    list(DISTINCT receiver) AS receivers, avg(value) AS mean, stddev_pop(value) AS spread, min(block_time) AS time
FROM moves
SEMI JOIN senders USING (tx, token, sender)
GROUP BY ALL
HAVING count(DISTINCT receiver) >= 3;

-- The wallet that paid the sender in the same transaction. The sender then is a contract that passes payments on.
CREATE OR REPLACE TABLE passed AS
SELECT payments.tx, payments.token, payments.sender, any_value(moves.sender) AS payer
FROM payments
JOIN moves ON moves.tx = payments.tx AND moves.token = payments.token AND moves.receiver = payments.sender
GROUP BY ALL
HAVING count(DISTINCT moves.sender) = 1;

CREATE OR REPLACE TABLE exchanges AS
SELECT id FROM degrees WHERE counterparties > getvariable('counterparties')
UNION
SELECT id FROM wallets JOIN marked USING (address) WHERE is_exchange;

CREATE OR REPLACE TABLE hubs AS
SELECT id FROM degrees WHERE counterparties > getvariable('counterparties')
UNION
SELECT id FROM wallets JOIN marked USING (address)
UNION
SELECT sender FROM passed;

-- Payments with the wallet that pays. A hub pays nobody: it is a faucet or an airdrop.
CREATE OR REPLACE TABLE batches AS
SELECT payments.*, coalesce(payer, sender) AS payer
FROM payments
LEFT JOIN passed USING (tx, token, sender)
WHERE coalesce(payer, sender) NOT IN (FROM hubs);

-- Payers by profession, such as employers, faucets and airdrops: they pay in batches on 3 days or more.
CREATE OR REPLACE TABLE distributors AS
SELECT payer AS id
FROM batches
GROUP BY payer
HAVING count(DISTINCT time // 86400) >= 3;

-- The first transfer that each wallet received: of the chain's coin, if the data have any such transfer.
CREATE OR REPLACE TABLE funded AS
SELECT
    receiver AS id,
    arg_min(sender, (block_time, tx, sender)) AS funder,
    arg_min(tx, (block_time, tx, sender)) AS tx,
    min(block_time) AS time
FROM moves
WHERE
    block_time IS NOT NULL
    AND (
        token IN (SELECT token FROM tokens WHERE token_address = 'native')
        OR NOT EXISTS (FROM tokens WHERE token_address = 'native')
    )
GROUP BY receiver;

CREATE OR REPLACE TABLE links (
    kind VARCHAR,
    link BIGINT,
    id INTEGER,
    through INTEGER,
    confidence DOUBLE,
    transfers BIGINT,
    first_time BIGINT,
    last_time BIGINT
);
