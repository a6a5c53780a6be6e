-- The pairs of wallets that evidence joins, as in the file entity_joins.parquet.
SELECT one.address, other.address AS other, joins.confidence, CAST($as_of AS BIGINT) AS as_of
FROM joins
JOIN wallets AS one ON one.id = joins.a
JOIN wallets AS other ON other.id = joins.b
ORDER BY address, other
