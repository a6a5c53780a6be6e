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
-- chain. Exclude them with ANTI JOIN special_addresses USING (chain, address).
-- Example: SELECT chain, kind, count(*) AS addresses FROM special_addresses GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW special_addresses AS
WITH marked AS (
    SELECT chain, address, is_cex, is_dex, label, false AS own, fetched_at, timestamp
    FROM holders
    WHERE is_cex OR is_dex OR is_contract
    UNION ALL
    SELECT chain, address, is_cex, is_dex, label, false, fetched_at, timestamp
    FROM map_nodes
    WHERE is_cex OR is_dex OR is_contract
    UNION ALL
    SELECT chain, address, is_cex, is_dex, label, false, fetched_at, timestamp
    FROM addresses
    WHERE is_cex OR is_dex OR is_contract
    UNION ALL
    SELECT chain, address, kind = 'cex', kind = 'dex', label, true, NULL, NULL
    FROM stored_labels
    WHERE kind IS NOT NULL
)
SELECT
    chain,
    address,
    CASE WHEN bool_or(is_cex) THEN 'cex' WHEN bool_or(is_dex) THEN 'dex' ELSE 'contract' END AS kind,
    max_by(label, (own, fetched_at, timestamp, label)) FILTER (label IS NOT NULL) AS label
FROM marked
GROUP BY chain, address;

-- Addresses of exchanges, by chain.
-- Example: SELECT chain, label, kind, count(*) AS addresses FROM exchanges GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW exchanges AS
FROM special_addresses
WHERE kind IN ('cex', 'dex');
