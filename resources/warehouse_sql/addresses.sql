-- An address as the tables write it: hexadecimal (EVM) in lower case, every other kind (Solana, TRON, TON) as it is,
-- for there upper and lower case differ. Macros that take an address put it through this.
-- Example: SELECT plain_address('0xABCDEF0000000000000000000000000000000001') AS evm, plain_address('So1anaAddressMixed') AS solana;
CREATE OR REPLACE MACRO plain_address(address) AS
CASE
    WHEN regexp_full_match(trim(address), '0[xX][0-9a-fA-F]+') OR lower(trim(address)) = 'native' THEN lower(trim(address))
    ELSE trim(address)
END;

-- The newest metadata of each address on each chain.
-- Example: SELECT label, count(*) AS addresses FROM latest_addresses WHERE is_cex GROUP BY label ORDER BY ALL;
CREATE OR REPLACE VIEW latest_addresses AS
SELECT *
FROM addresses
QUALIFY row_number() OVER (PARTITION BY chain, address ORDER BY timestamp DESC) = 1;

-- The metadata of each address on each chain in its newest partition at or before t.
-- Example: SELECT chain, address, label FROM addresses_as_of('2026-06-30') WHERE label IS NOT NULL ORDER BY ALL;
CREATE OR REPLACE MACRO addresses_as_of(t) AS TABLE
SELECT *
FROM addresses
WHERE timestamp <= instant(t)
QUALIFY row_number() OVER (PARTITION BY chain, address ORDER BY timestamp DESC) = 1;

-- Every address that any row tells to be an exchange's, by chain: kind is cex or dex, label its newest name.
-- Example: SELECT chain, label, kind, count(*) AS addresses FROM exchanges GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW exchanges AS
WITH told AS (
    SELECT chain, address, is_cex, label, timestamp FROM holders WHERE is_cex OR is_dex
    UNION ALL
    SELECT chain, address, is_cex, label, timestamp FROM map_nodes WHERE is_cex OR is_dex
    UNION ALL
    SELECT chain, address, is_cex, label, timestamp FROM addresses WHERE is_cex OR is_dex
)
SELECT
    chain,
    address,
    CASE WHEN bool_or(is_cex) THEN 'cex' ELSE 'dex' END AS kind,
    max_by(label, (timestamp, label)) FILTER (label IS NOT NULL) AS label
FROM told
GROUP BY chain, address;
