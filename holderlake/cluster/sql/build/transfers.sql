-- Distinct transfers with numeric values. Of rows with the same key, one with exact times and log indexes is kept; the
-- order of rows in the files has no influence. If the sums of a token fit 37 digits, "low" has its values alone;
-- otherwise they are cut into limbs of 26 digits.
WITH placed AS (
    SELECT
        chain, token_address, from_address, to_address, value, block_time, log_index_kind,
        row_number() OVER (
            PARTITION BY
                chain, token_address,
                coalesce(tx_hash, CAST(block_number AS VARCHAR) || ':' || from_address || ':' || to_address),
                log_index, token_id
            ORDER BY
                from_address, to_address, value,
                CASE WHEN time_kind = 'exact' THEN 0 ELSE 1 END, CASE WHEN log_index_kind = 'exact' THEN 0 ELSE 1 END,
                block_number, block_time, source
        ) AS place
    FROM raw
),
kept AS (
    SELECT chain, token_address, from_address, to_address, ltrim(value, '0') AS digits, block_time, log_index_kind
    FROM placed
    WHERE place = 1
),
lanes AS (
    SELECT chain, token_address, max(length(digits)) + length(CAST(count(*) AS VARCHAR)) > 37 AS is_wide
    FROM kept
    GROUP BY chain, token_address
)
SELECT
    kept.chain AS chain,
    kept.token_address AS token_address,
    from_address,
    to_address,
    block_time AS second,
    block_time // 86400 AS day,
    log_index_kind = 'opening' AS is_opening,
    digits <> '' AS is_something,
    CASE
        WHEN is_wide THEN CAST(substr(lpad(digits, 78, '0'), 53, 26) AS DECIMAL(38, 0))
        ELSE CAST(lpad(digits, 38, '0') AS DECIMAL(38, 0))
    END AS low,
    CASE WHEN is_wide THEN CAST(substr(lpad(digits, 78, '0'), 27, 26) AS DECIMAL(38, 0)) END AS middle,
    CASE WHEN is_wide THEN CAST(substr(lpad(digits, 78, '0'), 1, 26) AS DECIMAL(38, 0)) END AS high
FROM kept
JOIN lanes ON kept.chain = lanes.chain AND kept.token_address = lanes.token_address
