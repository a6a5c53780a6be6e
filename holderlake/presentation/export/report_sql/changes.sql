-- Addresses that entered or left the list of holders between the start and the end of the period: the largest of each.
SELECT
    changes.change,
    coalesce(rank_after, rank_before) AS rank,
    changes.address,
    coalesce(changes.label, named.label) AS label,
    CASE change
        WHEN 'entered' THEN exact_amount(amount_after, amount_after_exact)
        ELSE exact_amount(amount_before, amount_before_exact)
    END AS amount,
    coalesce(amount_before_at_most, amount_after_at_most) AS unlisted_at_most,
    CASE change WHEN 'entered' THEN share_after ELSE share_before END AS share,
    count(*) OVER (PARTITION BY changes.change) AS of_all
FROM holder_changes(CAST($since AS TIMESTAMPTZ), CAST($until AS TIMESTAMPTZ)) AS changes
LEFT JOIN (
    SELECT address, arg_max(label, timestamp) AS label
    FROM map_nodes
    WHERE chain = $chain AND token_address = $token AND timestamp <= $until AND kind = 'top_holder'
    GROUP BY address
) AS named ON named.address = changes.address
WHERE chain = $chain AND token_address = $token AND change IN ('entered', 'left')
QUALIFY row_number() OVER (PARTITION BY changes.change ORDER BY rank, changes.address) <= 12
ORDER BY changes.change, rank, changes.address;
