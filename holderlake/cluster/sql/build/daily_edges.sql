-- Transfers of a token from one address to another on a day: sum, number, first and last second. Without transfers of
-- zero or to oneself, and without opening balances, which are no transfers.
SELECT
    chain,
    token_address,
    from_address,
    to_address,
    day,
    sum(low) AS low,
    sum(middle) AS middle,
    sum(high) AS high,
    count(*) AS transfers,
    min(second) AS first_second,
    max(second) AS last_second
FROM transfers
WHERE from_address <> to_address AND is_something AND NOT is_opening
GROUP BY chain, token_address, from_address, to_address, day
