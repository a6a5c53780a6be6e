-- Tokens of your store (or of the sample world, if that is the provider), with the number and period of their
-- transfers. The store's data end at last_transfer: a map as of a later time has no later transfers.
-- Example: SELECT symbol, transfers, first_transfer, last_transfer FROM stored_tokens ORDER BY transfers DESC LIMIT 3;
CREATE OR REPLACE VIEW stored_tokens AS
FROM _internal.stored_tokens;

-- The labels of your store (holderlake import labels) at present, on each chain of the warehouse and of the store.
-- Example: SELECT kind, count(*) AS addresses FROM stored_labels GROUP BY kind ORDER BY kind;
CREATE OR REPLACE VIEW stored_labels AS
FROM labels_as_of(now());

-- The labels of your store at a time. A label without valid_from and valid_to counts at all times.
-- Example: SELECT kind, count(*) AS addresses FROM labels_as_of('2026-01-01') GROUP BY kind ORDER BY kind;
CREATE OR REPLACE MACRO labels_as_of(t) AS TABLE
SELECT chain, address, kind, label
FROM label_periods
-- in whole seconds, because the end of a date alone is later than the last second of a period
WHERE date_trunc('second', instant(t)) >= coalesce(valid_from, '-infinity')
    AND date_trunc('second', instant(t)) <= coalesce(valid_to, 'infinity');

-- The labels of your store at all times: one row for each time in which an address has one label on a chain. A label
-- file's row with a chain holds on that chain only, a row without one on each chain of the warehouse and of the store.
-- Example: SELECT chain, address, kind, label, valid_from, valid_to FROM label_periods ORDER BY ALL LIMIT 5;
CREATE OR REPLACE VIEW label_periods AS
WITH used AS (
    SELECT chain FROM partitions
    UNION
    SELECT chain FROM stored_tokens
)
SELECT used.chain, labels.address, kind, label, valid_from, valid_to
FROM _internal.labels AS labels
JOIN used ON used.chain = labels.chain
UNION ALL
SELECT used.chain, labels.address, kind, label, valid_from, valid_to
FROM _internal.labels AS labels
CROSS JOIN used
ANTI JOIN _internal.labels AS own ON own.chain = used.chain AND own.address = labels.address
WHERE labels.chain IS NULL;

-- A raw whole number as text, in token units: the text with a decimal point before its last digits.
-- Example: SELECT token_units('1500000', 6) AS usdc;
CREATE OR REPLACE MACRO token_units(raw, decimals) AS
CASE
    WHEN length(raw) > decimals THEN left(raw, length(raw) - decimals) || '.' || right(raw, decimals)
    ELSE '0.' || lpad(raw, CAST(decimals AS INTEGER), '0')
END;

-- A raw whole number as text, in token units as the exact columns have them: with a sign, and without zeros at the end.
-- Example: SELECT exact_units('-1500000', 6) AS usdc;
CREATE OR REPLACE MACRO exact_units(raw, decimals) AS
CASE WHEN starts_with(raw, '-') THEN '-' ELSE '' END
|| regexp_replace(token_units(ltrim(raw, '-'), decimals), '\.?0*$', '');

-- Transfers of your store (or of the sample world, if that is the provider) as of the last load, one row for each,
-- with the same columns for files and nodes. With conditions on chain, token_address and block_time, a query reads
-- only these rows. A mint comes from the zero address, a burn goes to it. Opening balances are no transfers. raw_amount
-- is a text: write max(raw_amount::BIGNUM), and ORDER BY raw_amount::BIGNUM.
-- Example: SELECT block_time, from_address, to_address, amount FROM transfers WHERE token_address = '0x1111111111111111111111111111111111111111' AND block_time >= TIMESTAMP '2026-06-01' ORDER BY block_time, log_index LIMIT 3;
CREATE OR REPLACE VIEW transfers AS
WITH typed AS (
    SELECT
        files.*,
        stored.symbol,
        decimals,
        token_units(value, decimals) AS units,
        -- 20 digits before the point and 18 after it fit into the decimal
        decimals <= 18 AND length(value) - decimals <= 20 AS fits
    FROM _internal.transfer_files AS files
    LEFT JOIN _internal.stored_tokens AS stored
        ON stored.chain = files.chain AND stored.token_address = files.token_address
)
SELECT
    chain,
    token_address,
    symbol,
    block_time,
    block_number,
    log_index,
    tx_hash,
    from_address,
    to_address,
    CASE WHEN fits THEN CAST(units AS DECIMAL(38, 18)) ELSE as_amount(exact_units(value, decimals)) END AS amount,
    CASE WHEN NOT fits THEN as_exact(exact_units(value, decimals)) END AS amount_exact,
    value AS raw_amount,
    token_id,
    token_standard,
    time_kind,
    log_index_kind,
    source
FROM typed;

-- Transfers that were stored until a reorganisation of their chain replaced their block, with the time when the import
-- found that (undone_at, UTC); the newest 200,000. A transfer that the chain includes again is in transfers too.
-- Example: SELECT undone_at, block_number, from_address, to_address, amount FROM undone_transfers ORDER BY ALL LIMIT 3;
CREATE OR REPLACE VIEW undone_transfers AS
SELECT
    undone.undone_at,
    undone.chain,
    undone.token_address,
    stored.symbol,
    undone.block_time,
    undone.block_number,
    undone.log_index,
    undone.tx_hash,
    undone.from_address,
    undone.to_address,
    as_amount(exact_units(value, decimals)) AS amount,
    as_exact(exact_units(value, decimals)) AS amount_exact,
    undone.value AS raw_amount,
    undone.token_id,
    undone.token_standard
FROM _internal.undone_transfers AS undone
LEFT JOIN _internal.stored_tokens AS stored
    ON stored.chain = undone.chain AND stored.token_address = undone.token_address;

-- Transfers of an address, of all tokens of your store. They are single transfers with their hashes;
-- address_transfers has sums by counterparty from maps, for every provider.
-- Example: SELECT block_time, symbol, direction, counterparty, amount FROM transfers_of('0x1111111111111111111111111111111111111111') ORDER BY block_time DESC, log_index LIMIT 3;
CREATE OR REPLACE MACRO transfers_of(of_address) AS TABLE
WITH moved AS (
    FROM transfers
    WHERE from_address = plain_address(of_address) OR to_address = plain_address(of_address)
)
SELECT
    CASE
        WHEN from_address = to_address THEN 'self'
        WHEN from_address = plain_address(of_address) THEN 'sent'
        ELSE 'received'
    END AS direction,
    CASE WHEN from_address = plain_address(of_address) THEN to_address ELSE from_address END AS counterparty,
    *
FROM moved
UNION ALL BY NAME
SELECT source FROM (SELECT address_error(of_address, EXISTS (FROM moved)) AS source) WHERE source = '';

-- Transfers between two addresses in both directions, of all tokens of your own store: those behind a link of a map.
-- Example: SELECT block_time, symbol, from_address, amount, tx_hash FROM transfers_between('0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222') ORDER BY block_time, log_index;
CREATE OR REPLACE MACRO transfers_between(a, b) AS TABLE
FROM transfers
WHERE (from_address = plain_address(a) AND to_address = plain_address(b))
    OR (from_address = plain_address(b) AND to_address = plain_address(a));
