-- Alert when an address enters the first ranks: it was not among them in the list of holders before. It may rise with
-- the same amount, when others sell. The subject is the address, the measured value its rank.
/*
table = "holders"
sentence = "{subject} is new among the first {threshold:.0f} holders, at rank {measured:.0f}"
options.top = 10
about.top = "Last rank of a top holder"
*/
SELECT
    changes.chain,
    changes.token_address,
    changes.to_timestamp AS timestamp,
    changes.address AS subject,
    CAST(changes.to_timestamp AS VARCHAR) AS occasion,
    CAST(changes.rank_after AS DOUBLE) AS measured,
    to_json({
        'label': coalesce(nodes.label, changes.label),
        'is_cex': coalesce(nodes.is_cex, changes.is_cex),
        'is_contract': coalesce(nodes.is_contract, changes.is_contract),
        'rank': changes.rank_after,
        'rank_before': changes.rank_before,
        'share': changes.share_after,
        'share_before': changes.share_before,
        'amount': exact_amount(changes.amount_after, changes.amount_after_exact),
        'amount_before': exact_amount(changes.amount_before, changes.amount_before_exact),
        'amount_before_at_most': changes.amount_before_at_most,
        'first_activity_date': coalesce(nodes.first_activity_date, present.first_activity_date),
        'previous_timestamp': changes.from_timestamp
    }) AS evidence
FROM holder_changes(
    CAST($since AS TIMESTAMP) - INTERVAL 1 MICROSECOND, CAST($until AS TIMESTAMP), each_list := true, with_same := true
) AS changes
SEMI JOIN watched USING (chain, token_address)
LEFT JOIN holders AS present
    ON present.chain = changes.chain
    AND present.token_address = changes.token_address
    AND present.timestamp = changes.to_timestamp
    AND present.address = changes.address
LEFT JOIN map_nodes AS nodes
    ON nodes.chain = changes.chain
    AND nodes.token_address = changes.token_address
    AND nodes.timestamp = changes.to_timestamp
    AND nodes.address = changes.address
    AND nodes.kind = 'top_holder'
WHERE changes.rank_after <= $top
    -- a list before that was shorter does not show that the address is new
    AND coalesce(changes.rank_before > $top, changes.depth >= least($top, coalesce(present.holder_limit, 80)), true)
ORDER BY changes.to_timestamp, changes.chain, changes.token_address, changes.rank_after;
