-- An address as the tables spell it: hexadecimal (EVM) in lower case, every other kind (Solana, TRON, TON) unchanged,
-- because its case matters. Macros with an address apply this to it.
-- Example: SELECT plain_address('0xABCDEF0000000000000000000000000000000001') AS evm, plain_address('So1anaAddressMixed') AS solana;
CREATE OR REPLACE MACRO plain_address(address) AS
CASE
    WHEN regexp_full_match(trim(address), '0[xX][0-9a-fA-F]+') OR lower(trim(address)) = 'native' THEN lower(trim(address))
    ELSE trim(address)
END;

-- Whether a text has the form of an address: hexadecimal with 40 or 64 digits after 0x, at least 26 letters and digits
-- of another chain, or native.
-- Example: SELECT is_address('0xabcdef0000000000000000000000000000000001') AS evm, is_address('Binance 7') AS name;
CREATE OR REPLACE MACRO is_address(given) AS
regexp_full_match(trim(given), '0[xX]([0-9a-fA-F]{40}|[0-9a-fA-F]{64})|(0[^xX]|[^0])[\w:+/=-]{24,}|(?i:native)');

-- An error if a text has not the form of an address and no row has it (is_known), as after a typo; else null.
-- Example: SELECT address_error('0xabcdef0000000000000000000000000000000001', false) AS error;
CREATE OR REPLACE MACRO address_error(given, is_known) AS
CASE
    WHEN NOT is_known AND NOT is_address(given)
    THEN error(
        '''' || given || ''' is no address, and no row has it: an address has for example 40 hexadecimal digits after '
        || '0x. The view address_names finds addresses by name'
    )
END;

-- The metadata of each address on each chain in the newest answer.
-- Example: SELECT label, count(*) AS addresses FROM latest_addresses WHERE is_cex GROUP BY label ORDER BY ALL;
CREATE OR REPLACE VIEW latest_addresses AS
SELECT *
FROM addresses
QUALIFY row_number() OVER (PARTITION BY chain, address ORDER BY fetched_at DESC, timestamp DESC) = 1;

-- The metadata of each address on each chain in its newest partition at or before t; see answered_as_of for the columns
-- that it adds.
-- Example: SELECT chain, address, label FROM addresses_as_of('2026-06-30') WHERE label IS NOT NULL ORDER BY ALL;
CREATE OR REPLACE MACRO addresses_as_of(t) AS TABLE
SELECT
    *,
    instant(t) AS requested,
    as_of_distance(t, timestamp) AS days_earlier,
    timestamp < instant(t) - as_of_warning() AS is_outdated
FROM addresses
WHERE timestamp <= instant(t)
QUALIFY row_number() OVER (PARTITION BY chain, address ORDER BY timestamp DESC) = 1;

-- The name of each address that has one, by chain: that of your own label, or else that of the newest answer that names
-- it, in any table. Names change: rows of past instants show the name that they were fetched with.
-- Example: SELECT address_names.label, share FROM latest_holders JOIN address_names USING (chain, address) ORDER BY share DESC LIMIT 3;
CREATE OR REPLACE VIEW address_names AS
WITH named AS (
    SELECT chain, address, label, false AS own, fetched_at, timestamp FROM holders WHERE label IS NOT NULL
    UNION ALL
    SELECT chain, address, label, false, fetched_at, timestamp FROM map_nodes WHERE label IS NOT NULL
    UNION ALL
    SELECT chain, address, label, false, fetched_at, timestamp FROM addresses WHERE label IS NOT NULL
    UNION ALL
    SELECT chain, address, label, true, NULL, NULL FROM stored_labels WHERE label IS NOT NULL
)
SELECT chain, address, max_by(label, (own, fetched_at, timestamp, label)) AS label, bool_or(own) AS is_own
FROM named
GROUP BY chain, address;

-- Addresses that your own labels or some row (of holders, map_nodes or addresses) mark as exchange or contract, by
-- chain and time. Rows of answers mark an address at all times, unless your own labels give it periods: then only they
-- count. Addresses without an owner (mints come from them, burns go to them) are burn at all times.
-- Example: SELECT chain, kind, count(*) AS addresses FROM special_periods GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW special_periods AS
WITH marked AS (
    SELECT chain, address, is_cex, is_dex, label, fetched_at, timestamp
    FROM holders
    WHERE is_cex OR is_dex OR is_contract
    UNION ALL
    SELECT chain, address, is_cex, is_dex, label, fetched_at, timestamp
    FROM map_nodes
    WHERE is_cex OR is_dex OR is_contract
    UNION ALL
    SELECT chain, address, is_cex, is_dex, label, fetched_at, timestamp
    FROM addresses
    WHERE is_cex OR is_dex OR is_contract
),
answered AS (
    SELECT
        chain,
        address,
        CASE
            WHEN is_burn(address) THEN 'burn'
            WHEN bool_or(is_cex) THEN 'cex'
            WHEN bool_or(is_dex) THEN 'dex'
            ELSE 'contract'
        END AS kind,
        max_by(label, (fetched_at, timestamp, label)) FILTER (label IS NOT NULL) AS label
    FROM marked
    GROUP BY chain, address
),
own AS (
    SELECT *, valid_from IS NOT NULL OR valid_to IS NOT NULL AS has_period
    FROM label_periods
)
SELECT
    coalesce(own.chain, answered.chain) AS chain,
    coalesce(own.address, answered.address) AS address,
    CASE
        WHEN has_period THEN own.kind
        WHEN 'burn' IN (own.kind, answered.kind) THEN 'burn'
        WHEN 'cex' IN (own.kind, answered.kind) THEN 'cex'
        WHEN 'dex' IN (own.kind, answered.kind) THEN 'dex'
        ELSE coalesce(own.kind, answered.kind)
    END AS kind,
    coalesce(own.label, answered.label) AS label,
    valid_from,
    valid_to
FROM own
FULL JOIN answered ON answered.chain = own.chain AND answered.address = own.address
WHERE CASE WHEN has_period THEN own.kind ELSE coalesce(own.kind, answered.kind) END IS NOT NULL;

-- Exchanges, contracts and addresses without an owner as of t, by chain; see special_periods. Exclude them from the
-- holders of the past with ANTI JOIN special_addresses_as_of(t) USING (chain, address).
-- Example: SELECT chain, kind, count(*) AS addresses FROM special_addresses_as_of('2026-06-30') GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE MACRO special_addresses_as_of(t) AS TABLE
SELECT chain, address, kind, label
FROM special_periods
-- in whole seconds, because the end of a date alone is later than the last second of a period
WHERE date_trunc('second', instant(t)) >= coalesce(valid_from, '-infinity')
    AND date_trunc('second', instant(t)) <= coalesce(valid_to, 'infinity');

-- Exchanges, contracts and addresses without an owner at present, by chain. Exclude them with ANTI JOIN
-- special_addresses USING (chain, address); special_addresses_as_of(t) has those of a time.
-- Example: SELECT chain, kind, count(*) AS addresses FROM special_addresses GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW special_addresses AS
FROM special_addresses_as_of(now());

-- Addresses of exchanges at present, by chain.
-- Example: SELECT chain, label, kind, count(*) AS addresses FROM exchanges GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW exchanges AS
FROM special_addresses
WHERE kind IN ('cex', 'dex');
