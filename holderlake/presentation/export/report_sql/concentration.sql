-- The token's concentration at each map of the series with the most maps in the period. maps_left_out counts the others.
WITH maps_of_period AS (
    SELECT *, count(*) OVER () AS all_maps, count(*) OVER (PARTITION BY series) AS maps, max(timestamp) OVER (PARTITION BY series) AS newest
    FROM concentration_history
    WHERE chain = $chain AND token_address = $token AND timestamp BETWEEN $since AND $until
)
SELECT
    * EXCLUDE (chain, token_address, all_maps, maps, newest),
    all_maps - maps AS maps_left_out
FROM maps_of_period
QUALIFY dense_rank() OVER (ORDER BY maps DESC, newest DESC) = 1
ORDER BY timestamp;
