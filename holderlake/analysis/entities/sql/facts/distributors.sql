-- Payers by profession, such as employers, faucets and airdrops: they pay in batches on 3 days or more.
-- Without times: in more than 10 transactions.
SELECT payer AS id
FROM batches
WHERE payer IS NOT NULL
GROUP BY payer
HAVING count(DISTINCT time // 86400) >= 3 OR (count(time) = 0 AND count(DISTINCT tx) > 10)
