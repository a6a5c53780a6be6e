-- Maps and lists of holders that are later than the source's data, one row for each. The token's last known transfer is
-- much earlier, and they show the state after it. The last transfer comes from your store, or from metadata that were
-- fetched after the instant. Much earlier means more than a week, and more than ten times the mean time between two
-- transfers of the token (at most a year). A token that is no longer used looks the same.
-- Example: SELECT symbol, family, count(*) AS answers, max(last_transfer) AS data_end FROM after_source_end JOIN symbols USING (chain, token_address) GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW after_source_end AS
WITH known AS (
    SELECT chain, token_address, last_transfer, first_transfer, transfers, NULL::TIMESTAMP AS known_at
    FROM stored_tokens
    UNION ALL
    SELECT
        chain, token_address, arg_max(max_date, fetched_at), arg_max(min_date, fetched_at),
        arg_max(transfers_count, fetched_at), max(fetched_at)
    FROM tokens
    WHERE max_date IS NOT NULL
    GROUP BY chain, token_address
),
ends AS (
    SELECT
        chain, token_address,
        max(last_transfer) AS last_transfer,
        max(coalesce(known_at, 'infinity')) AS known_at,
        max((epoch(last_transfer) - epoch(first_transfer)) / transfers) / 86400 AS mean_days
    FROM known
    GROUP BY chain, token_address
),
answers AS (
    SELECT 'maps' AS family, chain, token_address, timestamp FROM maps
    UNION ALL
    SELECT 'holders', chain, token_address, timestamp FROM holders WHERE rank = 1
)
SELECT
    answers.chain,
    answers.token_address,
    answers.timestamp,
    answers.family,
    ends.last_transfer,
    date_diff('second', ends.last_transfer, answers.timestamp) / 86400.0 AS days_after
FROM answers
JOIN ends ON ends.chain = answers.chain AND ends.token_address = answers.token_address
WHERE
    answers.timestamp <= ends.known_at
    AND days_after > greatest(7, least(10 * coalesce(ends.mean_days, 0), 365));
