-- Addresses with more transfers than a map allows, and the second from which they have.
WITH busy AS (
    SELECT address FROM addresses WHERE transfers > $hypernode_transfers
),
ends AS (
    SELECT from_address AS address, second FROM transfers WHERE is_something AND NOT is_opening
    UNION ALL
    SELECT to_address AS address, second
    FROM transfers
    WHERE is_something AND NOT is_opening AND from_address <> to_address
),
numbered AS (
    SELECT address, second, row_number() OVER (PARTITION BY address ORDER BY second) AS place
    FROM ends
    SEMI JOIN busy USING (address)
)
SELECT address, second AS since FROM numbered WHERE place = $hypernode_transfers + 1
