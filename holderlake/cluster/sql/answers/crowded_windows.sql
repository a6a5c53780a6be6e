-- Windows of time in which an exchange has more distinct counterparties, of any token and chain, than a time node may
-- have, and the second from which it does.
WITH requested AS (
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
first_contacts AS (
    SELECT exchange, time_window, address, min(second) AS first_second
    FROM ends
    SEMI JOIN requested USING (exchange, time_window)
    GROUP BY exchange, time_window, address
),
numbered AS (
    SELECT
        exchange, time_window, first_second,
        row_number() OVER (PARTITION BY exchange, time_window ORDER BY first_second) AS place
    FROM first_contacts
)
SELECT exchange, time_window, first_second AS since FROM numbered WHERE place = $time_wallets + 1
