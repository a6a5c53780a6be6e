-- Payers by profession, such as employers, faucets and airdrops: they pay in batches on 3 days or more.
SELECT payer AS id
FROM batches
GROUP BY payer
HAVING count(DISTINCT time // 86400) >= 3
