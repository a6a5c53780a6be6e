-- Each token's maps in series with equal request options: the figures of a map of 80 holders and of one of 500 differ,
-- so views through time compare a map with the previous one of its series only. series names the options.
-- series_maps counts the maps of the series: to follow one series, choose that with the most. A token without a map at
-- an instant, because it has no holders, belongs to the series before.
-- Example: SELECT series, max(series_maps) AS maps FROM map_series GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE VIEW map_series AS
WITH named AS NOT MATERIALIZED (
    SELECT
        coverage.chain,
        coverage.subject AS token_address,
        coverage.timestamp,
        CASE
            WHEN maps.chain IS NOT NULL
            THEN coalesce(maps.holder_limit, 80) || ' holders'
                || CASE WHEN maps.use_magic_nodes IS false THEN ', no magic nodes' ELSE '' END
                || CASE WHEN maps.use_time_nodes IS false THEN ', no time nodes' ELSE '' END
        END AS named
    FROM coverage
    LEFT JOIN maps
        ON maps.chain = coverage.chain
        AND maps.token_address = coverage.subject
        AND maps.timestamp = coverage.timestamp
    WHERE coverage.family = 'maps'
),
filled AS NOT MATERIALIZED (
    SELECT
        * EXCLUDE (named),
        named IS NOT NULL AS has_map,
        coalesce(
            last_value(named IGNORE NULLS) OVER (history ROWS UNBOUNDED PRECEDING),
            first_value(named IGNORE NULLS) OVER (history ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
        ) AS series
    FROM named
    WINDOW history AS (PARTITION BY chain, token_address ORDER BY timestamp)
)
SELECT
    chain,
    token_address,
    timestamp,
    series,
    count(*) FILTER (has_map) OVER (PARTITION BY chain, token_address, series) AS series_maps,
    lag(timestamp) OVER (PARTITION BY chain, token_address, series ORDER BY timestamp) AS previous_timestamp
FROM filled;
