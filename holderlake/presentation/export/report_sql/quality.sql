-- The data behind the figures: partitions of maps and holders, the longest gap, when they were fetched, revisions, and
-- answers that are later than the source's data.
WITH moments AS (
    SELECT timestamp, min(fetched_at) AS fetched_at, 'maps' AS kind, count(*) AS rows
    FROM maps
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $period_start AND $period_end
    GROUP BY timestamp
    UNION ALL
    SELECT timestamp, min(fetched_at), 'holders', count(*)
    FROM listed_holders
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $period_start AND $period_end
    GROUP BY timestamp
),
gaps AS (
    SELECT *, timestamp - lag(timestamp) OVER (PARTITION BY kind ORDER BY timestamp) AS gap
    FROM moments
)
SELECT
    count(*) FILTER (kind = 'maps') AS maps,
    count(*) FILTER (kind = 'holders') AS lists,
    CAST(epoch(max(gap)) / 3600 AS DOUBLE) AS longest_gap_hours,
    min(rows) FILTER (kind = 'holders') AS fewest_holders,
    max(rows) FILTER (kind = 'holders') AS most_holders,
    (
        SELECT count(*)
        FROM holder_lists
        WHERE is_complete AND chain = $chain AND token_address = $token AND timestamp BETWEEN $period_start AND $period_end
    ) AS complete_lists,
    min(fetched_at) AS learnt_from,
    max(fetched_at) AS learnt_to,
    (
        SELECT {'last_transfer': max(last_transfer), 'answers': count(*)}
        FROM after_source_end
        WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $period_start AND $period_end
    ) AS after_source_end,
    count(*) FILTER (fetched_at - timestamp > INTERVAL 1 DAY) AS learnt_later,
    (
        SELECT count(*)
        FROM failures
        WHERE code <> 'no_holders' AND chain = $chain AND subject = $token AND timestamp BETWEEN $period_start AND $period_end
    ) AS failures,
    (
        SELECT count(*)
        FROM revisions
        WHERE family IN ('holders', 'maps') AND chain = $chain AND subject = $token AND timestamp BETWEEN $period_start AND $period_end
    ) AS revisions
FROM gaps;
