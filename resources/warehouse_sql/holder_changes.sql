-- Who entered the list of holders between t1 and t2, who left it, and whose amount went up or down.
-- The list is as long as was asked for, so "left" can mean "fell below its end". Tokens that have no partition at or
-- before t1, or none after it up to t2, are left out. amount_change is null where a decimal can't hold the amounts.
-- Example: FROM holder_changes('2025-01-01', '2026-01-01') WHERE change = 'entered' ORDER BY share_after DESC;
CREATE OR REPLACE MACRO holder_changes(t1, t2) AS TABLE
WITH spans AS (
    SELECT
        chain,
        token_address,
        max(timestamp) FILTER (timestamp <= CAST(t1 AS TIMESTAMP)) AS from_timestamp,
        max(timestamp) FILTER (timestamp <= CAST(t2 AS TIMESTAMP)) AS to_timestamp
    FROM holders
    GROUP BY chain, token_address
),
-- exact amounts as text that sorts like the numbers do: a decimal column can't hold all of them
listed AS (
    SELECT
        *,
        coalesce(amount_exact, CAST(amount AS VARCHAR)) AS exact,
        lpad(split_part(exact, '.', 1), 80, '0') || '.' || rtrim(split_part(exact, '.', 2), '0') AS amount_order
    FROM holders
),
before AS (
    SELECT listed.*
    FROM listed
    JOIN spans
        ON spans.chain = listed.chain
        AND spans.token_address = listed.token_address
        AND spans.from_timestamp = listed.timestamp
    WHERE spans.from_timestamp < spans.to_timestamp
),
after AS (
    SELECT listed.*
    FROM listed
    JOIN spans
        ON spans.chain = listed.chain
        AND spans.token_address = listed.token_address
        AND spans.to_timestamp = listed.timestamp
    WHERE spans.from_timestamp < spans.to_timestamp
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
        CASE
            WHEN before.rank IS NULL THEN 'entered'
            WHEN after.rank IS NULL THEN 'left'
            WHEN after.amount_order > before.amount_order THEN 'up'
            WHEN after.amount_order < before.amount_order THEN 'down'
        END AS change,
        CASE
            WHEN before.rank IS NULL THEN after.amount
            WHEN after.rank IS NULL THEN -before.amount
            ELSE after.amount - before.amount
        END AS amount_change
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
    paired.change,
    paired.amount_change,
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
WHERE paired.change IS NOT NULL;
