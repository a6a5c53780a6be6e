-- Links of a kind that finds pairs: the wallets that its pairs connect are one group (table groups).
INSERT INTO links
SELECT getvariable('kind'), root, id, NULL::INTEGER, max(confidence), sum(transfers), min(first_time), max(last_time)
FROM (SELECT a AS id, pairs.* FROM pairs UNION ALL SELECT b, pairs.* FROM pairs)
JOIN groups USING (id)
GROUP BY root, id;
