-- Holders that entered or left the list between t1 and t2, and those whose amount changed: a comparison of each token's
-- newest list at or before t1 with its newest one at or before t2. Holders that came and left in between are in
-- holder_entries and holder_exits only. The list has a limited length, so an address also leaves it by falling below
-- its end. Tokens without a partition at or before t1, or without a later one up to t2, are left out.
-- Example: FROM holder_changes('2025-01-01', '2026-01-01') WHERE change = 'entered' ORDER BY share_after DESC;
CREATE OR REPLACE MACRO holder_changes(t1, t2) AS TABLE
WITH spans AS (
    SELECT
        chain,
        token_address,
        max(timestamp) FILTER (timestamp <= instant(t1)) AS from_timestamp,
        max(timestamp) AS to_timestamp
    FROM comparable
    WHERE family = 'holders' AND timestamp <= instant(t2)
    GROUP BY ALL
    HAVING from_timestamp < to_timestamp
),
before AS (
    SELECT holders.*
    FROM holders
    SEMI JOIN spans
        ON spans.chain = holders.chain
        AND spans.token_address = holders.token_address
        AND spans.from_timestamp = holders.timestamp
),
after AS (
    SELECT holders.*
    FROM holders
    SEMI JOIN spans
        ON spans.chain = holders.chain
        AND spans.token_address = holders.token_address
        AND spans.to_timestamp = holders.timestamp
),
paired AS (
    SELECT
        chain,
        token_address,
        address,
        coalesce(after.label, before.label) AS label,
        before.rank AS rank_before,
        after.rank AS rank_after,
        before.amount AS amount_before,
        after.amount AS amount_after,
        before.amount_exact AS amount_before_exact,
        after.amount_exact AS amount_after_exact,
        before.share AS share_before,
        after.share AS share_after,
        before.amount_exact IS NULL AND after.amount_exact IS NULL AS plain,
        coalesce(after.amount, 0) - coalesce(before.amount, 0) AS plain_change,
        CASE
            WHEN before.amount_exact IS NULL AND after.amount_exact IS NULL THEN NULL
            ELSE amount_text(
                coalesce(amount_units(exact_amount(after.amount, after.amount_exact)), CAST(0 AS BIGNUM))
                - coalesce(amount_units(exact_amount(before.amount, before.amount_exact)), CAST(0 AS BIGNUM))
            )
        END AS exact_change
    FROM before
    FULL JOIN after USING (chain, token_address, address)
)
SELECT
    paired.chain,
    paired.token_address,
    spans.from_timestamp,
    spans.to_timestamp,
    paired.address,
    paired.label,
    CASE
        WHEN paired.rank_before IS NULL THEN 'entered'
        WHEN paired.rank_after IS NULL THEN 'left'
        WHEN CASE WHEN plain THEN plain_change < 0 ELSE starts_with(paired.exact_change, '-') END THEN 'down'
        ELSE 'up'
    END AS change,
    CASE WHEN plain THEN plain_change ELSE as_amount(paired.exact_change) END AS amount_change,
    as_exact(paired.exact_change) AS amount_change_exact,
    paired.amount_before,
    paired.amount_after,
    paired.amount_before_exact,
    paired.amount_after_exact,
    paired.share_before,
    paired.share_after,
    paired.rank_before,
    paired.rank_after
FROM paired
JOIN spans USING (chain, token_address)
WHERE
    paired.rank_before IS NULL
    OR paired.rank_after IS NULL
    OR CASE WHEN plain THEN plain_change <> 0 ELSE paired.exact_change <> '0' END;
