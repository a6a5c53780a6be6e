-- The number of counterparties of each address.
SELECT id, count(*) AS counterparties
FROM (SELECT a AS id FROM ties UNION ALL SELECT b FROM ties) AS ends
GROUP BY id
