-- Balances other than zero of an address and token at the end of each day from "first_day" until before "end_day".
-- Limbs are from 0 to 10^26, except the highest, which has the sign.
WITH moved AS (
    SELECT chain, token_address, to_address AS address, day, low, middle, high
    FROM transfers
    WHERE from_address <> to_address AND is_something
    UNION ALL
    SELECT chain, token_address, from_address AS address, day, -low AS low, -middle AS middle, -high AS high
    FROM transfers
    WHERE from_address <> to_address AND is_something
),
daily AS (
    SELECT
        chain, token_address, address, day,
        sum(low) AS low_moved, sum(middle) AS middle_moved, sum(high) AS high_moved
    FROM moved
    GROUP BY chain, token_address, address, day
),
reached AS (
    SELECT
        chain, token_address, address, day,
        lead(day) OVER (PARTITION BY chain, token_address, address ORDER BY day) AS next_day,
        sum(low_moved) OVER (
            PARTITION BY chain, token_address, address ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS low_reached,
        sum(middle_moved) OVER (
            PARTITION BY chain, token_address, address ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS middle_reached,
        sum(high_moved) OVER (
            PARTITION BY chain, token_address, address ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS high_reached
    FROM daily
),
{carried}
SELECT
    chain,
    token_address,
    address,
    day AS first_day,
    coalesce(next_day, 2147483647) AS end_day,
    low,
    middle,
    high
FROM carried
WHERE low <> 0 OR middle <> 0 OR high <> 0
