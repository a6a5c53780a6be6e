-- A number for each address.
SELECT CAST(row_number() OVER (ORDER BY address) - 1 AS INTEGER) AS id, address
FROM (SELECT from_address AS address FROM given UNION SELECT to_address FROM given) AS ends
