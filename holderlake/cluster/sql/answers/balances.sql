-- Balances of each requested token as of each instant: those at the end of the day before, plus the transfers of the
-- open day.
WITH known AS (
    SELECT b.chain AS chain, b.token_address AS token_address, i.second AS as_of, b.address AS address,
        b.low AS low, b.middle AS middle, b.high AS high
    FROM balance_intervals AS b
    JOIN requested_tokens AS w ON b.chain = w.chain AND b.token_address = w.token_address
    JOIN instants AS i ON b.first_day < i.open_day AND b.end_day >= i.open_day
),
opened AS (
    SELECT t.chain AS chain, t.token_address AS token_address, i.second AS as_of, t.from_address AS from_address,
        t.to_address AS to_address, t.low AS low, t.middle AS middle, t.high AS high
    FROM transfers AS t
    JOIN requested_tokens AS w ON t.chain = w.chain AND t.token_address = w.token_address
    JOIN instants AS i ON t.day = i.open_day AND t.second <= i.second
    WHERE t.from_address <> t.to_address AND t.is_something
),
changes AS (
    SELECT chain, token_address, as_of, address, low, middle, high FROM known
    UNION ALL
    SELECT chain, token_address, as_of, to_address AS address, low, middle, high FROM opened
    UNION ALL
    SELECT chain, token_address, as_of, from_address AS address, -low AS low, -middle AS middle, -high AS high
    FROM opened
),
reached AS (
    SELECT
        chain, token_address, as_of, address,
        sum(low) AS low_reached, sum(middle) AS middle_reached, sum(high) AS high_reached
    FROM changes
    GROUP BY chain, token_address, as_of, address
),
{carried}
SELECT chain, token_address, as_of, address, low, middle, high
FROM carried
WHERE low <> 0 OR middle <> 0 OR high <> 0
