-- The request options of each token's maps and holder lists: holder_limit, use_magic_nodes and use_time_nodes (null for
-- holders).
-- Example: SELECT family, options.holder_limit, count(*) AS answers FROM request_options GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW request_options AS
SELECT
    'maps' AS family,
    chain,
    token_address,
    timestamp,
    {
        'holder_limit': holder_limit,
        'use_magic_nodes': use_magic_nodes,
        'use_time_nodes': use_time_nodes
    } AS options
FROM maps
UNION ALL
SELECT
    'holders',
    chain,
    token_address,
    timestamp,
    {'holder_limit': holder_limit, 'use_magic_nodes': CAST(NULL AS BOOLEAN), 'use_time_nodes': CAST(NULL AS BOOLEAN)}
FROM holders
WHERE rank = 1;

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
