-- The request options of each token's maps and holder lists: holder_limit, use_magic_nodes and use_time_nodes (null for
-- holders). Rows of version 0.1.0 have none: they count as that version's defaults (80 holders, with magic and time
-- nodes), or as the limit that their ranks prove. 'holderlake home rebuild' reads the real ones from the archive, at no
-- cost.
-- Example: SELECT family, options.holder_limit, count(*) AS answers FROM request_options GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW request_options AS
WITH ranks AS NOT MATERIALIZED (
    SELECT 'holders' AS family, chain, token_address, timestamp, rank, holder_limit
    FROM holders
    WHERE rank IN (1, 81, 251)
    UNION ALL
    SELECT 'maps', chain, token_address, timestamp, rank, NULL
    FROM map_nodes
    WHERE rank IN (81, 251)
),
limits AS (
    SELECT
        family,
        chain,
        token_address,
        timestamp,
        coalesce(any_value(holder_limit), CASE max(rank) WHEN 251 THEN 500 WHEN 81 THEN 250 ELSE 80 END) AS holder_limit
    FROM ranks
    GROUP BY ALL
)
SELECT
    'maps' AS family,
    maps.chain,
    maps.token_address,
    maps.timestamp,
    {
        'holder_limit': coalesce(maps.holder_limit, limits.holder_limit, 80),
        'use_magic_nodes': coalesce(maps.use_magic_nodes, true),
        'use_time_nodes': coalesce(maps.use_time_nodes, true)
    } AS options
FROM maps
LEFT JOIN limits
    ON limits.family = 'maps'
    AND limits.chain = maps.chain
    AND limits.token_address = maps.token_address
    AND limits.timestamp = maps.timestamp
UNION ALL
SELECT
    family,
    chain,
    token_address,
    timestamp,
    {'holder_limit': holder_limit, 'use_magic_nodes': CAST(NULL AS BOOLEAN), 'use_time_nodes': CAST(NULL AS BOOLEAN)}
FROM limits
WHERE family = 'holders';

-- The answers that can be compared through time: of each token's maps and holder lists, those with the request options
-- of its newest one, and those without rows. A list of 80 holders and one of 500 differ in every figure, so the views
-- through time (concentration_history, cluster_lineage, holder_changes, holder_entries, holder_exits, holding_periods)
-- use only these answers. To include older partitions, refresh them with today's options.
-- Example: SELECT family, count(*) AS answers FROM comparable GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW comparable AS
SELECT coverage.family, coverage.chain, coverage.subject AS token_address, coverage.timestamp
FROM coverage
LEFT JOIN request_options
    ON request_options.family = coverage.family
    AND request_options.chain = coverage.chain
    AND request_options.token_address = coverage.subject
    AND request_options.timestamp = coverage.timestamp
WHERE coverage.family IN ('maps', 'holders')
QUALIFY
    request_options.options IS NULL
    OR request_options.options = last_value(request_options.options IGNORE NULLS) OVER (
        PARTITION BY coverage.family, coverage.chain, coverage.subject
        ORDER BY coverage.timestamp ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    );
