-- The number of holders that two tokens have in common at t, for every pair with at least one. Each pair has one row.
-- An address that is the same on several chains counts as the same holder.
-- Example: FROM holder_overlap('2026-06-30') WHERE common_wallets > 0 ORDER BY overlap DESC, token_a, token_b LIMIT 5;
CREATE OR REPLACE MACRO holder_overlap(t) AS TABLE
WITH listed AS MATERIALIZED (
    SELECT
        holding.chain,
        holding.token_address,
        holding.address,
        holding.share,
        special_addresses.address IS NULL AS is_wallet,
        count(*) OVER (PARTITION BY holding.chain, holding.token_address) AS holders
    FROM holders_as_of(t) AS holding
    LEFT JOIN special_addresses USING (chain, address)
)
SELECT
    a.chain AS chain_a,
    a.token_address AS token_a,
    b.chain AS chain_b,
    b.token_address AS token_b,
    count(*) AS common_holders,
    count(*) FILTER (a.is_wallet AND b.is_wallet) AS common_wallets,
    any_value(a.holders) AS holders_of_a,
    any_value(b.holders) AS holders_of_b,
    count(*) / (any_value(a.holders) + any_value(b.holders) - count(*)) AS overlap,
    sum(a.share) AS share_of_a,
    sum(b.share) AS share_of_b,
    coalesce(sum(a.share) FILTER (a.is_wallet AND b.is_wallet), 0) AS wallets_share_of_a,
    coalesce(sum(b.share) FILTER (a.is_wallet AND b.is_wallet), 0) AS wallets_share_of_b
FROM listed AS a
JOIN listed AS b ON a.address = b.address AND (a.chain, a.token_address) < (b.chain, b.token_address)
GROUP BY ALL;
