CREATE TABLE IF NOT EXISTS settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tokens (
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    name TEXT NOT NULL,
    symbol TEXT NOT NULL,
    decimals INTEGER NOT NULL,
    standard TEXT NOT NULL,
    is_indexed INTEGER NOT NULL, -- follows from index_marks
    img_url TEXT,
    unsupported TEXT,
    assumed INTEGER NOT NULL, -- 1: assumed by an import of transfers, until metadata is imported
    folded_symbol TEXT NOT NULL DEFAULT '', -- the form that a search compares, see tokens.folded
    folded_name TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (chain, address)
);
CREATE INDEX IF NOT EXISTS indexed_tokens ON tokens (is_indexed, chain, address);
CREATE INDEX IF NOT EXISTS tokens_by_address ON tokens (address);
CREATE TABLE IF NOT EXISTS index_marks ( -- which sources mark a token as indexed, see indexed_tokens
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    source TEXT NOT NULL,
    precedence INTEGER NOT NULL, -- the mark with the highest precedence decides
    is_indexed INTEGER NOT NULL,
    PRIMARY KEY (chain, address, source)
);
CREATE TABLE IF NOT EXISTS histories (
    number INTEGER PRIMARY KEY, -- the token's number in the arrays, never given to another
    chain TEXT NOT NULL,
    token_address TEXT NOT NULL,
    UNIQUE (chain, token_address)
);
CREATE TABLE IF NOT EXISTS parts ( -- transfers/<file>.parquet or openings/<file>.parquet, arrays/<file>.part, balances/<file>.parquet
    file TEXT PRIMARY KEY,
    token INTEGER NOT NULL, -- number of the history
    kind TEXT NOT NULL, -- base, tail, opening or correction
    transfers INTEGER NOT NULL,
    first_time INTEGER NOT NULL,
    last_time INTEGER NOT NULL,
    first_block INTEGER NOT NULL,
    last_block INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS runs ( -- arrays/<file>.run: the adjacency
    file TEXT PRIMARY KEY,
    entries INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS volumes ( -- arrays/<file>.volume: the dictionary of addresses
    file TEXT PRIMARY KEY,
    first_number INTEGER NOT NULL,
    size INTEGER NOT NULL
);
DROP VIEW IF EXISTS listed;
CREATE VIEW listed AS -- the present files of the store, as paths within its folder
SELECT iif(kind IN ('opening', 'correction'), 'openings/', 'transfers/') || file || '.parquet' AS path FROM parts
UNION ALL SELECT 'arrays/' || file || '.part' FROM parts
UNION ALL SELECT 'balances/' || file || '.parquet' FROM parts
UNION ALL SELECT 'arrays/' || file || '.run' FROM runs
UNION ALL SELECT 'arrays/' || file || '.volume' FROM volumes;
CREATE TABLE IF NOT EXISTS files ( -- size and checksum of each listed or replaced file, see integrity
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL, -- bytes
    crc32 INTEGER NOT NULL,
    replaced_at INTEGER, -- second (unix) of its replacement; it is removed after a grace for readers
    signature TEXT -- of the file when the sum was computed, see integrity.signature_of
);
CREATE TABLE IF NOT EXISTS labels (
    address TEXT NOT NULL,
    chain TEXT NOT NULL, -- '' if the source names none
    source TEXT NOT NULL,
    name TEXT,
    entity_id TEXT,
    is_cex INTEGER NOT NULL,
    is_dex INTEGER NOT NULL,
    is_contract INTEGER NOT NULL,
    is_paid_label INTEGER NOT NULL,
    precedence INTEGER NOT NULL,
    valid_from INTEGER NOT NULL, -- unix seconds; 0 without a beginning
    valid_to INTEGER, -- the last unix second; NULL without an end
    is_latest INTEGER NOT NULL, -- the last period of the address, chain and source
    PRIMARY KEY (address, chain, source, valid_from)
);
CREATE TABLE IF NOT EXISTS changes ( -- a row for each import that changed something, never removed
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    first_time INTEGER NOT NULL -- answers as of this second (unix) or later may have changed; 0: all answers
);
