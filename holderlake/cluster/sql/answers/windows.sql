-- Windows of time in which enough shown holders used an exchange that was not crowded, the most shared first.
WITH users AS (
    SELECT chain, token_address, as_of, exchange, time_window, address
    FROM exchange_transfers
    WHERE is_holder
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
        s.chain AS chain, s.token_address AS token_address, s.as_of AS as_of, s.exchange AS exchange,
        s.time_window AS time_window,
        row_number() OVER (
            PARTITION BY s.chain, s.token_address, s.as_of ORDER BY s.wallets DESC, s.exchange, s.time_window
        ) AS place
    FROM shared AS s
    LEFT JOIN crowded_windows AS c ON s.exchange = c.exchange AND s.time_window = c.time_window
    WHERE coalesce(c.since, s.as_of + 1) > s.as_of
)
SELECT chain, token_address, as_of, exchange, time_window, place FROM ranked WHERE place <= $time_limit
