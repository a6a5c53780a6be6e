-- Tokens that hold all the words, those whose symbol or address is the whole text first, then those with most maps.
-- The address of a wallet finds the tokens whose newest list of holders it is in, with its share. Without words, those with the most members of clusters on their newest map come first: there is the most to see.
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
held AS (
    SELECT chain, token_address, any_value(address) AS wallet, max(share) AS share
    FROM (
        SELECT chain, token_address, address, share FROM latest_holders
        UNION ALL
        SELECT chain, token_address, address, share FROM latest_map_nodes WHERE kind = 'top_holder'
    )
    WHERE lower(address) = $whole
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
    wallet,
    held.share,
    count(*) OVER () AS found
FROM symbols
FULL JOIN counted USING (chain, token_address)
LEFT JOIN clustered USING (chain, token_address)
LEFT JOIN held USING (chain, token_address)
WHERE wallet IS NOT NULL OR len(list_filter($words, lambda word: NOT contains(lower(concat_ws(' ', chain, token_address, name, symbol)), word))) = 0
ORDER BY
    coalesce(lower(symbol), '') = $whole OR lower(token_address) = $whole DESC,
    starts_with(lower(coalesce(symbol, '')), $whole) OR starts_with(lower(coalesce(name, '')), $whole) DESC,
    maps > 0 DESC,
    token_address = 'native', -- people rarely search for coins, so they come last
    coalesce(members, 0) DESC,
    held.share DESC NULLS LAST,
    maps DESC,
    latest DESC,
    symbol,
    chain,
    token_address
LIMIT $most
