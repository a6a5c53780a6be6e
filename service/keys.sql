CREATE TABLE IF NOT EXISTS keys (
    id INTEGER PRIMARY KEY,
    prefix TEXT NOT NULL UNIQUE,
    secret_hash BLOB NOT NULL,
    name TEXT NOT NULL,
    allowance INTEGER NOT NULL CHECK (allowance >= 0), -- hundredths of a credit a month
    custom_plan INTEGER NOT NULL,
    renewal_day INTEGER NOT NULL CHECK (renewal_day BETWEEN 1 AND 31),
    created_at TEXT NOT NULL,
    revoked_at TEXT
);
CREATE TABLE IF NOT EXISTS usage ( -- what was charged, summed: a period's total is a sum over its days
    key_id INTEGER NOT NULL REFERENCES keys (id),
    day TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    requests INTEGER NOT NULL,
    credits INTEGER NOT NULL,
    PRIMARY KEY (key_id, day, endpoint)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reservations ( -- requests that are being answered
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- an id is never used again, so a late settlement can't hit another's
    key_id INTEGER NOT NULL REFERENCES keys (id),
    day TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    credits INTEGER NOT NULL,
    process TEXT NOT NULL -- the presence of the process that answers it
);
CREATE INDEX IF NOT EXISTS reservations_by_key ON reservations (key_id, day);
