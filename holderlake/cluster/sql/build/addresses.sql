-- The first transfer and the number of transfers of each address, over all tokens and chains.
WITH ends AS (
    SELECT from_address AS address, second FROM transfers WHERE is_something AND NOT is_opening
    UNION ALL
    SELECT to_address AS address, second
    FROM transfers
    WHERE is_something AND NOT is_opening AND from_address <> to_address
)
SELECT address, min(second) AS first_second, count(*) AS transfers
FROM ends
GROUP BY address
