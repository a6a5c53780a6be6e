-- The holders that entered or left a token's list between two instants, and those whose amount changed. A name is your own
-- label, or else that of the lists, or else that of the maps at these instants: lists may be fetched without names.
WITH nodes AS (
    SELECT
        address,
        arg_max(label, timestamp) AS label,
        bool_or(is_cex) AS is_cex,
        bool_or(is_dex) AS is_dex,
        bool_or(is_contract) AS is_contract
    FROM map_nodes
    WHERE
        chain = $chain
        AND token_address = $token
        AND timestamp IN (CAST($before AS TIMESTAMP), CAST($after AS TIMESTAMP))
        AND kind <> 'time'
    GROUP BY address
),
own AS (
    SELECT address, max(label) AS label
    FROM labels_as_of(CAST($after AS TIMESTAMPTZ))
    WHERE chain = $chain
    GROUP BY address
)
SELECT
    changes.address,
    coalesce(own.label, changes.label, nodes.label) AS label,
    coalesce(changes.is_cex, nodes.is_cex) AS is_cex,
    coalesce(changes.is_dex, nodes.is_dex) AS is_dex,
    coalesce(changes.is_contract, nodes.is_contract) AS is_contract,
    changes.rank_before,
    changes.rank_after,
    changes.share_before,
    changes.share_after,
    exact_amount(changes.amount_change, changes.amount_change_exact) AS amount_change,
    coalesce(changes.amount_before_at_most, changes.amount_after_at_most) AS unlisted_at_most,
    changes.change
FROM holder_changes(CAST($before AS TIMESTAMPTZ), CAST($after AS TIMESTAMPTZ)) AS changes
LEFT JOIN nodes ON changes.address = nodes.address
LEFT JOIN own ON changes.address = own.address
WHERE changes.chain = $chain AND changes.token_address = $token
ORDER BY abs(coalesce(changes.share_after, 0) - coalesce(changes.share_before, 0)) DESC, changes.address
