-- Differences of lists of holders, with a cause for each that predicts it.
CREATE TABLE own_causes AS
SELECT
    scope.*, has_other_amount AND gap <> 0 AS has_gap,
    CASE
        WHEN lacking.chain IS NOT NULL THEN 'transfers' WHEN is_late THEN 'lateness' ELSE 'unexplained'
    END AS lasting,
    CASE WHEN is_delayed THEN 'lateness' ELSE lasting END AS own
FROM scope
LEFT JOIN lacking USING (chain, token_address);

-- The cause of ranks: that of the holders that are above on one side and below on the other, if a list has several causes.
CREATE TABLE explained AS
WITH several AS (
    SELECT list, chain, token_address, timestamp, mode(own) AS main, count(DISTINCT own) > 1 AS are_several
    FROM own_causes
    WHERE gap <> 0
    GROUP BY ALL
),
crossed AS (
    SELECT list, chain, token_address, timestamp, address, arg_max(cause, passed) AS cause
    FROM (
        SELECT
            list, chain, token_address, timestamp, mine.address, its.own AS cause,
            abs(sum(
                CAST(coalesce(its.size_a, 0) > coalesce(mine.size_a, 0) AS INTEGER)
                - CAST(coalesce(its.size_b, 0) > coalesce(mine.size_b, 0) AS INTEGER)
            )) AS passed
        FROM own_causes AS mine
        JOIN own_causes AS its USING (list, chain, token_address, timestamp)
        JOIN several USING (list, chain, token_address, timestamp)
        WHERE are_several AND its.gap <> 0 AND mine.rank_a IS DISTINCT FROM mine.rank_b AND its.address <> mine.address
        GROUP BY ALL
    )
    GROUP BY ALL
    HAVING max(passed) > 0
)
SELECT
    own_causes.*,
    CASE WHEN has_gap OR (repeats IS NOT NULL AND place > 1 AND NOT is_common) THEN own WHEN is_late THEN coalesce(crossed.cause, main, own) ELSE own END AS balances,
    bool_or(has_gap) OVER list AS has_other_balances,
    -- holders of equal amounts in another order: the amount and the number of its holders are the same
    is_common AND NOT has_other_amount
        AND row_number() OVER (tie ORDER BY rank_a) <> row_number() OVER (tie ORDER BY rank_b) AS is_reordered
FROM own_causes
LEFT JOIN several USING (list, chain, token_address, timestamp)
LEFT JOIN crossed USING (list, chain, token_address, timestamp, address)
WINDOW
    list AS (PARTITION BY list, chain, token_address, timestamp),
    tie AS (PARTITION BY list, chain, token_address, timestamp, is_common AND NOT has_other_amount, exact_a);

-- Holders in the list of one side only: the side that lacks them, and the cause.
CREATE TABLE absent AS
SELECT
    list, chain, token_address, timestamp, address, lacks, exact_a, exact_b,
    CASE
        WHEN coalesce(rank_a, rank_b) > mine.holder_limit AND its.holder_limit > mine.holder_limit
            AND mine.holders >= mine.holder_limit THEN 'other limits'
        WHEN NOT has_other_balances AND mine.least = its.least AND is_at_end AND size = its.least THEN 'ties'
        ELSE balances
    END AS cause
FROM (
    SELECT
        *, CASE WHEN in_a IS NULL THEN 'a' ELSE 'b' END AS lacks,
        min(size) OVER list = max(size) OVER list AS is_at_end
    FROM (SELECT *, coalesce(size_a, size_b) AS size FROM explained WHERE NOT is_common)
    WINDOW list AS (PARTITION BY list, chain, token_address, timestamp)
)
JOIN ends AS mine USING (list, chain, token_address, timestamp)
JOIN ends AS its USING (list, chain, token_address, timestamp)
WHERE mine.side = lacks AND its.side <> lacks;

CREATE TABLE holder_differences AS
SELECT chain, token_address, timestamp, 'holder' AS what, address AS subject, exact_a AS a, exact_b AS b, cause
FROM absent
WHERE list = 'holders'
UNION ALL
SELECT
    chain, token_address, timestamp, 'amount', address, exact_a, exact_b,
    CASE
        WHEN has_gap THEN balances
        WHEN factor = round(factor) THEN 'other decimals'
        ELSE 'unexplained'
    END
FROM explained
WHERE list = 'holders' AND has_other_amount
UNION ALL
SELECT
    chain, token_address, timestamp, 'share', subject, CAST(share_a AS VARCHAR), CAST(share_b AS VARCHAR),
    CASE
        WHEN is_late AND NOT coalesce(has_lasting_supply, false) THEN 'lateness'
        WHEN lasting = 'unexplained' AND subject = '' THEN 'other supply'
        ELSE lasting
    END
FROM (SELECT *, CASE WHEN is_supply THEN '' ELSE address END AS subject FROM explained)
WHERE list = 'holders' AND is_common AND (NOT has_other_amount OR (factor <> 0 AND ratio = factor))
    AND ((share_a IS NULL) <> (share_b IS NULL) OR abs(share_a - share_b) > greatest(1e-6 * share_a, 1e-9))
QUALIFY row_number() OVER (PARTITION BY chain, token_address, timestamp, subject ORDER BY rank_a) = 1
UNION ALL
SELECT
    chain, token_address, timestamp, 'rank', address, CAST(rank_a AS VARCHAR), CAST(rank_b AS VARCHAR),
    CASE WHEN is_reordered THEN 'ties' ELSE balances END
FROM explained
WHERE list = 'holders' AND is_common AND rank_a IS DISTINCT FROM rank_b AND NOT has_other_amount
UNION ALL
SELECT
    chain, token_address, timestamp, 'label', address, CAST(to_json(label_a) AS VARCHAR), CAST(to_json(label_b) AS VARCHAR),
    'other labels'
FROM explained
JOIN ends AS one USING (list, chain, token_address, timestamp)
JOIN ends AS other USING (list, chain, token_address, timestamp)
WHERE list = 'holders' AND is_common AND label_a IS DISTINCT FROM label_b
    AND one.side = 'a' AND other.side = 'b' AND one.is_detailed AND other.is_detailed;
