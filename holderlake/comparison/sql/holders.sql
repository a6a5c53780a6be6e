-- Differences of lists of holders: who is in one list only, and amounts, shares, ranks and labels that differ.
CREATE TABLE holder_differences AS
WITH pairs AS (
    SELECT
        chain, token_address, timestamp, address, held_a.is_held AS is_in_a, held_b.is_held AS is_in_b,
        held_a.rank AS rank_a, held_b.rank AS rank_b, held_a.exact AS exact_a, held_b.exact AS exact_b,
        held_a.share AS share_a, held_b.share AS share_b,
        {label: held_a.label, cex: held_a.is_cex, dex: held_a.is_dex, contract: held_a.is_contract} AS label_a,
        {label: held_b.label, cex: held_b.is_cex, dex: held_b.is_dex, contract: held_b.is_contract} AS label_b
    FROM held_a
    FULL JOIN held_b USING (chain, token_address, timestamp, address)
    SEMI JOIN scope USING (chain, token_address, timestamp)
),
ties AS (
    SELECT chain, token_address, timestamp, exact
    FROM held_a
    GROUP BY ALL
    HAVING count(*) > 1
),
explained AS (
    SELECT
        pairs.*,
        scope.* EXCLUDE (chain, token_address, timestamp),
        ties.exact IS NOT NULL AS is_tie
    FROM pairs
    JOIN scope USING (chain, token_address, timestamp)
    LEFT JOIN ties
        ON ties.chain = pairs.chain AND ties.token_address = pairs.token_address AND ties.timestamp = pairs.timestamp
        AND ties.exact = coalesce(pairs.exact_a, pairs.exact_b)
),
-- Holders of equal amounts with other shares; is_supply: the shares of the whole list differ by one factor
shares AS (
    SELECT
        *,
        coalesce(max(ratio) OVER list - min(ratio) OVER list < 1e-5, false) AS is_supply,
        row_number() OVER (list ORDER BY rank_a) AS place
    FROM (SELECT *, share_a / nullif(share_b, 0) AS ratio FROM explained) AS compared
    WHERE is_in_a AND is_in_b AND (CAST(exact_a AS DOUBLE) IS NOT DISTINCT FROM CAST(exact_b AS DOUBLE) OR decimals IS NOT NULL)
    WINDOW list AS (PARTITION BY chain, token_address, timestamp)
    QUALIFY (share_a IS NULL) <> (share_b IS NULL) OR abs(share_a - share_b) > greatest(1e-6 * share_a, 1e-9)
)
SELECT
    chain, token_address, timestamp, 'holder' AS what, address AS subject, exact_a AS a, exact_b AS b,
    CASE
        WHEN is_late THEN 'lateness'
        WHEN (is_in_a IS NULL AND rank_b > last_a) OR (is_in_b IS NULL AND rank_a > last_b) THEN 'other limits'
        WHEN is_tie THEN 'ties'
        ELSE 'transfers'
    END AS cause
FROM explained
WHERE is_in_a IS NULL OR is_in_b IS NULL
UNION ALL
SELECT
    chain, token_address, timestamp, 'amount', address, exact_a, exact_b,
    CASE WHEN decimals IS NOT NULL THEN 'other decimals' WHEN is_late THEN 'lateness' ELSE 'transfers' END
FROM explained
WHERE CAST(exact_a AS DOUBLE) <> CAST(exact_b AS DOUBLE)
    OR (is_in_a AND is_in_b AND (exact_a IS NULL) <> (exact_b IS NULL))
    OR (CAST(exact_a AS DOUBLE) = CAST(exact_b AS DOUBLE) AND rtrim(rtrim(exact_a, '0'), '.') <> rtrim(rtrim(exact_b, '0'), '.'))
UNION ALL
SELECT
    chain, token_address, timestamp, 'share', CASE WHEN is_supply THEN '' ELSE address END, CAST(share_a AS VARCHAR),
    CAST(share_b AS VARCHAR),
    CASE WHEN is_late THEN 'lateness' WHEN amounts > 0 AND decimals IS NULL THEN 'transfers'
        WHEN is_supply THEN 'other supply' ELSE 'unknown' END
FROM shares
WHERE NOT is_supply OR place = 1
UNION ALL
SELECT
    chain, token_address, timestamp, 'rank', address, CAST(rank_a AS VARCHAR), CAST(rank_b AS VARCHAR),
    CASE WHEN is_tie THEN 'ties' WHEN is_late THEN 'lateness' ELSE 'transfers' END
FROM explained
WHERE is_in_a AND is_in_b AND rank_a IS DISTINCT FROM rank_b AND exact_a IS NOT DISTINCT FROM exact_b
UNION ALL
SELECT
    chain, token_address, timestamp, 'label', address, CAST(to_json(label_a) AS VARCHAR), CAST(to_json(label_b) AS VARCHAR), 'other labels'
FROM explained
WHERE is_in_a AND is_in_b AND label_a IS DISTINCT FROM label_b;
