-- What an address held of a token at the end of each day from "first_day" until before "end_day", where that is not
-- nothing. Limbs are from 0 to 10^26, but for the highest, which carries the sign.
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
rests AS (
    SELECT
        *,
        CASE
            WHEN middle_reached IS NOT NULL THEN
                (low_reached % 100000000000000000000000000 + 100000000000000000000000000)
                % 100000000000000000000000000
        END AS low_rest
    FROM reached
),
-- the carry is a small whole number, so it is exact even where an engine divides decimals as doubles
once AS (
    SELECT
        chain, token_address, address, day, next_day, low_reached, middle_reached, high_reached, low_rest,
        middle_reached
        + CAST(round((low_reached - low_rest) / 100000000000000000000000000) AS DECIMAL(38, 0)) AS middle_carried
    FROM rests
),
twice AS (
    SELECT
        *,
        (middle_carried % 100000000000000000000000000 + 100000000000000000000000000) % 100000000000000000000000000
            AS middle_rest
    FROM once
),
carried AS (
    SELECT
        chain, token_address, address, day, next_day,
        CASE WHEN middle_reached IS NULL THEN low_reached ELSE CAST(low_rest AS DECIMAL(38, 0)) END AS low,
        CAST(middle_rest AS DECIMAL(38, 0)) AS middle,
        high_reached
        + CAST(round((middle_carried - middle_rest) / 100000000000000000000000000) AS DECIMAL(38, 0)) AS high
    FROM twice
)
SELECT
    chain,
    token_address,
    address,
    day AS first_day,
    coalesce(next_day, 2147483647) AS end_day,
    low,
    middle,
    CAST(high AS DECIMAL(38, 0)) AS high
FROM carried
WHERE low <> 0 OR middle <> 0 OR high <> 0
