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
    is_indexed INTEGER NOT NULL, -- what index_marks say
    img_url TEXT,
    unsupported TEXT,
    assumed INTEGER NOT NULL, -- 1: made up at an import of transfers, until real metadata comes
    folded_symbol TEXT NOT NULL DEFAULT '', -- what a search compares, see catalog.folded
    folded_name TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (chain, address)
);
-- in the very order of a search's results, so that a search ends when it has enough of them
CREATE INDEX IF NOT EXISTS tokens_by_folded_symbol ON tokens (is_indexed, folded_symbol, chain, address);
CREATE INDEX IF NOT EXISTS tokens_by_folded_name ON tokens (is_indexed, folded_name, chain, address);
CREATE INDEX IF NOT EXISTS tokens_by_address ON tokens (address);
CREATE TABLE IF NOT EXISTS words ( -- each word of a token's name, see catalog.words_of
    is_indexed INTEGER NOT NULL, -- as in tokens
    word TEXT NOT NULL,
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    PRIMARY KEY (is_indexed, word, chain, address)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS words_by_token ON words (chain, address, word);
CREATE TRIGGER IF NOT EXISTS words_follow_is_indexed AFTER UPDATE OF is_indexed ON tokens
WHEN old.is_indexed <> new.is_indexed
BEGIN
    UPDATE words SET is_indexed = new.is_indexed WHERE chain = new.chain AND address = new.address;
END;
CREATE TABLE IF NOT EXISTS index_marks ( -- who says that a token is indexed, see indexed
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    source TEXT NOT NULL,
    precedence INTEGER NOT NULL, -- the mark with the highest one decides
    is_indexed INTEGER NOT NULL,
    PRIMARY KEY (chain, address, source)
);
CREATE TABLE IF NOT EXISTS histories (
    number INTEGER PRIMARY KEY, -- the token's number in the arrays, never given to another
    chain TEXT NOT NULL,
    token_address TEXT NOT NULL,
    UNIQUE (chain, token_address)
);
CREATE TABLE IF NOT EXISTS parts ( -- transfers/<file>.parquet or openings/<file>.parquet, and arrays/<file>.part
    file TEXT PRIMARY KEY,
    token INTEGER NOT NULL, -- number of the history
    kind TEXT NOT NULL, -- base, tail or opening
    transfers INTEGER NOT NULL,
    first_time INTEGER NOT NULL,
    last_time INTEGER NOT NULL,
    first_block INTEGER NOT NULL,
    last_block INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS runs ( -- arrays/<file>.run: who dealt with whom
    file TEXT PRIMARY KEY,
    entries INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS volumes ( -- arrays/<file>.volume: addresses by number
    file TEXT PRIMARY KEY,
    first_number INTEGER NOT NULL,
    size INTEGER NOT NULL
);
CREATE VIEW IF NOT EXISTS listed AS -- the files that hold the store now, as paths within its folder
SELECT iif(kind = 'opening', 'openings/', 'transfers/') || file || '.parquet' AS path FROM parts
UNION ALL SELECT 'arrays/' || file || '.part' FROM parts
UNION ALL SELECT 'arrays/' || file || '.run' FROM runs
UNION ALL SELECT 'arrays/' || file || '.volume' FROM volumes;
CREATE TABLE IF NOT EXISTS files ( -- what each listed or replaced file has to be, see integrity
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL, -- bytes
    crc32 INTEGER NOT NULL,
    replaced_at INTEGER, -- second (unix) since which it is not listed; it is removed after a grace for readers
    signature TEXT -- what its inode was when the sum was taken, see integrity.signature_of
);
CREATE TABLE IF NOT EXISTS labels (
    address TEXT NOT NULL,
    chain TEXT NOT NULL, -- '' where the source does not tell
    source TEXT NOT NULL,
    name TEXT,
    entity_id TEXT,
    is_cex INTEGER NOT NULL,
    is_dex INTEGER NOT NULL,
    is_contract INTEGER NOT NULL,
    is_paid_label INTEGER NOT NULL,
    precedence INTEGER NOT NULL,
    PRIMARY KEY (address, chain, source)
);
CREATE TABLE IF NOT EXISTS changes ( -- a row for each import that changed something, never removed
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    first_time INTEGER NOT NULL -- answers as of this second (unix) or later may be others now; 0: all of them
);
