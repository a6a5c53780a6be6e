-- The first holders at the end of the period, with their amounts at its start.
WITH listed AS (
    SELECT *
    FROM listed_holders
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
),
ends AS (SELECT min(timestamp) AS first, max(timestamp) AS last FROM listed),
-- labels from maps, for holders that were fetched without details
named AS (
    SELECT
        address,
        arg_max(label, timestamp) AS label,
        arg_max(is_cex, timestamp) AS is_cex,
        arg_max(is_dex, timestamp) AS is_dex,
        arg_max(is_contract, timestamp) AS is_contract
    FROM map_nodes
    WHERE chain = $chain AND token_address = $token AND timestamp <= $until AND kind = 'top_holder'
    GROUP BY address
)
SELECT
    present.rank,
    present.address,
    coalesce(present.label, named.label) AS label,
    coalesce(present.is_cex, named.is_cex) AS is_cex,
    coalesce(present.is_dex, named.is_dex) AS is_dex,
    coalesce(present.is_contract, named.is_contract) AS is_contract,
    exact_amount(present.amount, present.amount_exact) AS amount,
    present.share,
    earlier.rank AS rank_before,
    earlier.share AS share_before
FROM listed AS present
JOIN ends ON present.timestamp = ends.last
LEFT JOIN listed AS earlier
    ON earlier.timestamp = ends.first
    AND ends.first < ends.last
    AND earlier.address = present.address
LEFT JOIN named ON named.address = present.address
ORDER BY present.rank
LIMIT 25;
