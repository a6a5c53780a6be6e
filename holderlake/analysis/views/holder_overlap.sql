-- The holders that two tokens have in common as of t, for every pair of which a holder is in both lists. Each pair has
-- one row. An address that is the same on several chains counts as the same holder; wallets are holders without
-- exchanges and contracts. A list has an end: common_holders and overlap are null unless both lists are complete. The
-- columns _at_least count what the lists prove, and basis says how long each is (holder_lists). balances_at of both tokens,
-- joined by chain and address, has all holders of tokens of your store.
-- Example: FROM holder_overlap('2026-06-30') WHERE wallets_at_least > 0 ORDER BY holders_at_least DESC, token_a, token_b LIMIT 5;
CREATE OR REPLACE MACRO holder_overlap(t) AS TABLE
WITH listed AS MATERIALIZED (
    SELECT
        list.chain,
        list.token_address,
        list.timestamp,
        holding.requested,
        holding.days_earlier,
        holding.is_outdated,
        list.holders_total,
        list.basis,
        holding.address,
        holding.share,
        special.address IS NULL AS is_wallet
    FROM holders_as_of(t) AS holding
    JOIN holder_lists AS list USING (chain, token_address, timestamp)
    LEFT JOIN special_addresses_as_of(t) AS special ON special.chain = holding.chain AND special.address = holding.address
)
SELECT
    a.chain AS chain_a,
    a.token_address AS token_a,
    a.timestamp AS timestamp_a,
    b.chain AS chain_b,
    b.token_address AS token_b,
    b.timestamp AS timestamp_b,
    CASE WHEN a.holders_total + b.holders_total IS NOT NULL THEN count(*) END AS common_holders,
    CASE WHEN a.holders_total + b.holders_total IS NOT NULL THEN count(*) FILTER (a.is_wallet AND b.is_wallet) END
        AS common_wallets,
    count(*) AS holders_at_least,
    count(*) FILTER (a.is_wallet AND b.is_wallet) AS wallets_at_least,
    a.holders_total AS holders_of_a,
    b.holders_total AS holders_of_b,
    a.basis AS basis_of_a,
    b.basis AS basis_of_b,
    count(*) / (a.holders_total + b.holders_total - count(*)) AS overlap,
    sum(a.share) AS share_of_a_at_least,
    sum(b.share) AS share_of_b_at_least,
    coalesce(sum(a.share) FILTER (a.is_wallet AND b.is_wallet), 0) AS wallets_share_of_a_at_least,
    coalesce(sum(b.share) FILTER (a.is_wallet AND b.is_wallet), 0) AS wallets_share_of_b_at_least,
    a.requested,
    a.days_earlier AS days_earlier_of_a,
    b.days_earlier AS days_earlier_of_b,
    a.is_outdated OR b.is_outdated AS is_outdated
FROM listed AS a
JOIN listed AS b ON a.address = b.address AND (a.chain, a.token_address) < (b.chain, b.token_address)
GROUP BY
    a.chain, a.token_address, a.timestamp, a.holders_total, a.basis, a.requested, a.days_earlier, a.is_outdated,
    b.chain, b.token_address, b.timestamp, b.holders_total, b.basis, b.days_earlier, b.is_outdated;
