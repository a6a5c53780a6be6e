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
    is_indexed INTEGER NOT NULL,
    img_url TEXT,
    unsupported TEXT,
    assumed INTEGER NOT NULL, -- 1: made up at an import of transfers, until real metadata comes
    PRIMARY KEY (chain, address)
);
CREATE INDEX IF NOT EXISTS tokens_by_symbol ON tokens (lower(symbol));
CREATE INDEX IF NOT EXISTS tokens_by_name ON tokens (lower(name));
CREATE INDEX IF NOT EXISTS tokens_by_address ON tokens (address);
CREATE TABLE IF NOT EXISTS histories (
    chain TEXT NOT NULL,
    token_address TEXT NOT NULL,
    file TEXT NOT NULL,
    transfers INTEGER NOT NULL,
    first_time INTEGER NOT NULL,
    last_time INTEGER NOT NULL,
    PRIMARY KEY (chain, token_address)
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
