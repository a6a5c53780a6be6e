-- The pairs of wallets that evidence joins, as in the file entity_joins.parquet.
SELECT one.address, other.address AS other, confidence, getvariable('as_of') AS as_of
FROM joins
JOIN wallets AS one ON one.id = a
JOIN wallets AS other ON other.id = b
ORDER BY ALL
