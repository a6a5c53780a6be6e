-- The windows of time in which enough shown holders used an exchange, the most shared first.
WITH users AS (
    SELECT chain, token_address, as_of, exchange, time_window, address
    FROM exchange_transfers
    GROUP BY chain, token_address, as_of, exchange, time_window, address
),
shared AS (
    SELECT chain, token_address, as_of, exchange, time_window, count(*) AS wallets
    FROM users
    GROUP BY chain, token_address, as_of, exchange, time_window
    HAVING count(*) >= $time_links
),
ranked AS (
    SELECT
        chain, token_address, as_of, exchange, time_window,
        row_number() OVER (
            PARTITION BY chain, token_address, as_of ORDER BY wallets DESC, exchange, time_window
        ) AS place
    FROM shared
)
SELECT chain, token_address, as_of, exchange, time_window, place FROM ranked WHERE place <= $time_limit
