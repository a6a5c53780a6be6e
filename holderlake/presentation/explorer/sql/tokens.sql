-- Tokens that hold all the words, those whose symbol or address is the whole text first, then those with most maps.
-- The name of a wallet (your own label, or else the fetched one), or the beginning or end of its address, finds the tokens
-- whose newest list of holders or newest map has it; $short is a pattern of both, such as 0x4dcd.*57b0.
-- Without words, those with the most members of clusters on their newest map come first: there is the most to see.
WITH instants AS (
    SELECT chain, token_address, timestamp, true AS has_map
    FROM maps
    UNION ALL
    SELECT chain, token_address, timestamp, false AS has_map
    FROM holders
    WHERE rank = 1
),
counted AS (
    SELECT
        chain,
        token_address,
        count(*) FILTER (has_map) AS maps,
        count(DISTINCT timestamp) AS instants,
        strftime(max(timestamp), '%Y%m%dT%H%M%SZ') AS latest
    FROM instants
    GROUP BY chain, token_address
),
named AS (
    SELECT chain, token_address, address, coalesce(own.label, listed.label) AS label, share
    FROM (
        SELECT chain, token_address, address, label, share FROM latest_holders
        UNION ALL
        SELECT chain, token_address, address, label, share FROM latest_map_nodes WHERE kind <> 'time'
    ) AS listed
    LEFT JOIN stored_labels AS own USING (chain, address)
    WHERE length($whole) >= 4
),
held AS (
    SELECT
        chain,
        token_address,
        arg_max(named, coalesce(share, -1)) AS holder
    FROM named
    WHERE
        starts_with(lower(address), $whole)
        OR ends_with(lower(address), $whole)
        OR contains(lower(label), $whole)
        OR ($short IS NOT NULL AND lower(address) SIMILAR TO $short)
    GROUP BY chain, token_address
),
clustered AS (
    SELECT chain, token_address, count(*) AS members
    FROM latest_cluster_members
    WHERE $whole = ''
    GROUP BY chain, token_address
)
SELECT
    chain,
    token_address,
    name,
    symbol,
    coalesce(maps, 0) AS maps,
    coalesce(instants, 0) AS instants,
    latest,
    CASE WHEN NOT is_named THEN holder.address END AS wallet,
    CASE WHEN NOT is_named THEN holder.label END AS wallet_label,
    CASE WHEN NOT is_named THEN holder.share END AS share,
    count(*) OVER () AS found
FROM (
    SELECT
        *,
        len(list_filter($words, lambda word: NOT contains(lower(concat_ws(' ', chain, token_address, name, symbol)), word))) = 0
        OR coalesce(lower(token_address) SIMILAR TO $short, false) AS is_named
    FROM symbols
    FULL JOIN counted USING (chain, token_address)
)
LEFT JOIN clustered USING (chain, token_address)
LEFT JOIN held USING (chain, token_address)
WHERE is_named OR holder IS NOT NULL
ORDER BY
    coalesce(lower(symbol) = $whole AND $whole <> '', false) OR lower(token_address) = $whole DESC,
    starts_with(lower(coalesce(symbol, '')), $whole) OR starts_with(lower(coalesce(name, '')), $whole) DESC,
    maps > 0 DESC,
    token_address = 'native', -- people rarely search for coins, so they come last
    coalesce(members, 0) DESC,
    holder.share DESC NULLS LAST,
    maps DESC,
    latest DESC,
    symbol,
    chain,
    token_address
LIMIT $most
