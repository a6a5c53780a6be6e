-- The holders in a token's list at two instants, and their changes. The list has the fetched length: a holder that left
-- it may have fallen below its end.
WITH listed AS (
    SELECT timestamp, address, rank, share, amount, amount_exact, label, is_cex, is_dex, is_contract
    FROM holders
    WHERE chain = $chain AND token_address = $token AND timestamp IN ($before, $after)
    UNION ALL
    SELECT timestamp, address, rank, share, amount, amount_exact, label, is_cex, is_dex, is_contract
    FROM map_nodes
    WHERE
        chain = $chain
        AND token_address = $token
        AND timestamp IN ($before, $after)
        AND kind = 'top_holder'
        AND timestamp NOT IN (
            SELECT timestamp FROM holders WHERE chain = $chain AND token_address = $token AND rank = 1
        )
),
paired AS (
    SELECT
        coalesce(later.address, earlier.address) AS address,
        coalesce(later.label, earlier.label) AS label,
        coalesce(later.is_cex, earlier.is_cex) AS is_cex,
        coalesce(later.is_dex, earlier.is_dex) AS is_dex,
        coalesce(later.is_contract, earlier.is_contract) AS is_contract,
        earlier.rank AS rank_before,
        later.rank AS rank_after,
        earlier.share AS share_before,
        later.share AS share_after,
        coalesce(earlier.amount_exact, CAST(earlier.amount AS VARCHAR)) AS exact_before,
        coalesce(later.amount_exact, CAST(later.amount AS VARCHAR)) AS exact_after,
        later.amount - earlier.amount AS difference
    FROM (FROM listed WHERE timestamp = $before) AS earlier
    FULL JOIN (FROM listed WHERE timestamp = $after) AS later ON earlier.address = later.address
)
SELECT
    address,
    label,
    is_cex,
    is_dex,
    is_contract,
    rank_before,
    rank_after,
    share_before,
    share_after,
    rtrim(rtrim(CAST(difference AS VARCHAR), '0'), '.') AS amount_change,
    CASE
        WHEN rank_before IS NULL THEN 'entered'
        WHEN rank_after IS NULL THEN 'left'
        WHEN exact_before IS NOT DISTINCT FROM exact_after THEN 'same'
        WHEN difference > 0 OR (difference IS NULL AND share_after >= share_before) THEN 'grew'
        ELSE 'shrank'
    END AS change
FROM paired
ORDER BY abs(coalesce(share_after, 0) - coalesce(share_before, 0)) DESC, address
