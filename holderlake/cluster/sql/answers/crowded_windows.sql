-- Windows of time in which an exchange had more distinct counterparties than a time node may have, of any token and chain,
-- and the second since when.
WITH asked AS (
    SELECT DISTINCT exchange, time_window FROM exchange_transfers
),
ends AS (
    SELECT from_address AS address, to_address AS exchange, second // $time_window AS time_window, second
    FROM transfers
    WHERE from_address <> to_address AND is_something AND NOT is_opening
    UNION ALL
    SELECT to_address AS address, from_address AS exchange, second // $time_window AS time_window, second
    FROM transfers
    WHERE from_address <> to_address AND is_something AND NOT is_opening
),
met AS (
    SELECT exchange, time_window, address, min(second) AS met_at
    FROM ends
    SEMI JOIN asked USING (exchange, time_window)
    GROUP BY exchange, time_window, address
),
placed AS (
    SELECT
        exchange, time_window, met_at,
        row_number() OVER (PARTITION BY exchange, time_window ORDER BY met_at) AS place
    FROM met
)
SELECT exchange, time_window, met_at AS since FROM placed WHERE place = $time_wallets + 1
