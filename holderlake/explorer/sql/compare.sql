-- The holders that entered or left a token's list between two instants, and those whose amount changed.
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
    exact_amount(amount_change, amount_change_exact) AS amount_change,
    coalesce(amount_before_at_most, amount_after_at_most) AS unlisted_at_most,
    change
FROM holder_changes(CAST($before AS TIMESTAMP), CAST($after AS TIMESTAMP))
WHERE chain = $chain AND token_address = $token
ORDER BY abs(coalesce(share_after, 0) - coalesce(share_before, 0)) DESC, address
