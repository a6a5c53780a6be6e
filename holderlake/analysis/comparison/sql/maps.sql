-- Differences of maps. A relationship is on one map only because an end is no node of the other map, or because of its
-- transfers. An end is no node because of its balance, its kind, the options and rules, or its neighbours. A cause that
-- is null is that of nearly all other rows of the map.
CREATE TABLE wallets AS
SELECT side, chain, token_address, timestamp, address, kind, degree
FROM nodes
WHERE kind = 'magic' OR (kind = 'top_holder' AND is_shown_on_map IS DISTINCT FROM false);

-- The side of a map that may lack a row (lacks, with the options and rules "mine"), and the other one ("its"). state: why
-- balances and transfers differ, if they do: the side is late, or lacks transfers (lasting). has_more_labels: the side knows kinds of addresses that the other one lacks.
-- has_more_transfers: no more links have fewer transfers on the side than have more.
CREATE TABLE sides AS
SELECT
    mine.side AS lacks, its.side AS has, chain, token_address, timestamp, mine, its,
    CASE WHEN is_late THEN 'lateness' END AS late, CASE WHEN sent.chain IS NOT NULL THEN 'transfers' END AS lasting,
    coalesce(late, lasting) AS state,
    labels.chain IS NOT NULL AS has_more_labels,
    coalesce(CASE mine.side WHEN 'a' THEN more_in_a >= more_in_b ELSE more_in_a <= more_in_b END, true) AS has_more_transfers
FROM drawn AS mine
JOIN drawn AS its USING (chain, token_address, timestamp)
LEFT JOIN delays USING (chain, token_address, timestamp)
LEFT JOIN (
    SELECT chain, count_if(transfers_a > transfers_b) AS more_in_a, count_if(transfers_a < transfers_b) AS more_in_b
    FROM differing_links
    GROUP BY chain
) AS counted USING (chain)
LEFT JOIN (
    SELECT DISTINCT links.chain, links.token_address, timestamp
    FROM links
    JOIN lacking ON lacking.chain = sent_chain AND lacking.token_address = sent_token
    UNION
    SELECT chain, token_address, timestamp FROM drawn SEMI JOIN lacking USING (chain, token_address)
) AS sent USING (chain, token_address, timestamp)
LEFT JOIN (SELECT DISTINCT chain, side FROM relabelled) AS labels ON labels.chain = mine.chain AND labels.side = mine.side
WHERE mine.side <> its.side;

CREATE TABLE missing AS
SELECT sides.*, wallets.address, kind, degree
FROM wallets
JOIN sides ON has = side AND (sides.chain, sides.token_address, sides.timestamp)
    = (wallets.chain, wallets.token_address, wallets.timestamp)
ANTI JOIN wallets AS same ON same.side = lacks AND same.kind IN ('top_holder', wallets.kind)
    AND (same.chain, same.token_address, same.timestamp, same.address)
        = (wallets.chain, wallets.token_address, wallets.timestamp, wallets.address);

CREATE TABLE missing_holders AS
SELECT
    missing.*,
    CASE
        WHEN absent.cause IS NOT NULL THEN absent.cause
        WHEN relabelled.chain IS NOT NULL THEN 'other labels'
        WHEN mine.hypernode_transfers <> its.hypernode_transfers THEN 'other thresholds'
        ELSE coalesce(state, 'unexplained')
    END AS cause
FROM missing
LEFT JOIN (FROM absent WHERE list = 'map') AS absent USING (lacks, chain, token_address, timestamp, address)
LEFT JOIN relabelled USING (chain, address)
WHERE kind = 'top_holder';

-- The strength of each magic node: the number of shown holders that it is linked to, before the number of transfers with
-- them; also without holders that the other side lacks or has other labels of (remaining), with their main cause, and then without
-- links that are too recent for it (old).
CREATE TABLE strengths AS
WITH linked AS (
    SELECT
        side, chain, token_address, timestamp, address, neighbour, 1000000000 + sum(transfers) AS strength,
        coalesce(1000000000 + sum(transfers) FILTER (NOT is_recent), 0) AS old
    FROM (
        SELECT
            *, unnest([from_address, to_address]) AS address, unnest([to_address, from_address]) AS neighbour,
            coalesce(CASE side WHEN 'a' THEN first > b_until ELSE first - shift > a_until END, false) AS is_recent
        FROM links
        LEFT JOIN reach USING (chain, token_address, timestamp)
        WHERE in_window = ''
    )
    GROUP BY ALL
)
SELECT
    magic.side AS has, magic.chain, magic.token_address, magic.timestamp, magic.address, sum(strength) AS strength,
    coalesce(sum(old) FILTER (reason IS NULL), 0) AS old, coalesce(sum(strength) FILTER (reason IS NULL), 0) AS remaining, mode(reason) AS cause
FROM wallets AS magic
JOIN (
    SELECT
        linked.*,
        coalesce(gone.cause, CASE WHEN relabelled.side <> linked.side THEN 'other labels' END) AS reason
    FROM linked
    SEMI JOIN (SELECT * RENAME (address AS neighbour) FROM wallets WHERE kind = 'top_holder') AS shown
        USING (side, chain, token_address, timestamp, neighbour)
    LEFT JOIN missing_holders AS gone ON (gone.has, gone.chain, gone.token_address, gone.timestamp, gone.address)
        = (linked.side, linked.chain, linked.token_address, linked.timestamp, neighbour)
    LEFT JOIN relabelled ON (relabelled.chain, relabelled.address) = (linked.chain, neighbour)
) USING (side, chain, token_address, timestamp, address)
WHERE magic.kind = 'magic'
GROUP BY ALL;

-- The least strength of a magic node, and the last one of a full map by strength and address.
CREATE TABLE weakest AS
SELECT
    side AS lacks, chain, token_address, timestamp, 1000000000 * coalesce(any_value(magic_links), 2) AS least,
    CASE WHEN count(strength) >= coalesce(any_value(magic_limit), 40) THEN max(row(-strength, address)) END AS last
FROM drawn
LEFT JOIN (SELECT * RENAME (has AS side) FROM strengths) USING (side, chain, token_address, timestamp)
GROUP BY side, chain, token_address, timestamp;

-- fits: the map of the side that lacks the magic node has room for one of its strength, of what is left of it, and of what
-- is not too recent. place: its place on the other map. busy: about twice its number of transfers, if those with all its
-- counterparties are as many as those with holders.
CREATE TABLE missing_magic AS
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY has, chain, token_address, timestamp ORDER BY strength DESC, address) AS place
    FROM strengths
)
SELECT
    missing.*,
    strength >= least AND coalesce(row(-strength, address) < last, true) AS fits,
    remaining >= least AND coalesce(row(-remaining, address) < last, true) AS fits_left,
    old >= least AND coalesce(row(-old, address) < last, true) AS fits_old,
    2 * degree * (strength % 1000000000) / (strength // 1000000000) AS busy,
    CASE
        WHEN NOT mine.use_magic_nodes AND its.use_magic_nodes THEN 'other limits'
        WHEN fits AND NOT fits_left THEN ranked.cause
        WHEN relabelled.chain IS NOT NULL THEN 'other labels'
        WHEN degree >= mine.supernode_degree AND degree < its.supernode_degree THEN 'other thresholds'
        WHEN strength < least OR (NOT fits AND place > mine.magic_limit) THEN 'other thresholds'
        WHEN NOT fits THEN NULL
        WHEN has_more_labels AND (state IS NULL OR has_more_transfers) THEN 'other labels'
        WHEN has_more_labels THEN NULL
        WHEN mine.hypernode_transfers < its.hypernode_transfers AND (state IS NULL OR busy >= mine.hypernode_transfers)
            THEN 'other thresholds'
        WHEN NOT fits_old THEN state
        ELSE coalesce(lasting, late)
    END AS cause
FROM missing
JOIN weakest USING (lacks, chain, token_address, timestamp)
LEFT JOIN ranked USING (has, chain, token_address, timestamp, address)
LEFT JOIN relabelled USING (chain, address)
WHERE kind = 'magic';

-- Nodes that a side lacks. A full map lacks a magic node because it has others, some of which are holders on the other
-- map: their main cause is its cause.
CREATE TABLE gone AS
SELECT lacks, chain, token_address, timestamp, address, cause
FROM missing_holders
ANTI JOIN (SELECT * RENAME (side AS lacks) FROM wallets) USING (lacks, chain, token_address, timestamp, address)
UNION ALL
SELECT
    missing_magic.lacks, chain, token_address, timestamp, address,
    coalesce(
        missing_magic.cause, others.cause, state, CASE WHEN has_more_labels THEN 'other labels' END,
        CASE WHEN mine.holder_limit <> its.holder_limit THEN 'other limits' END
    ) AS cause
FROM missing_magic
LEFT JOIN (
    SELECT lacks, chain, token_address, timestamp, mode(cause) AS cause
    FROM (
        SELECT has AS lacks, chain, token_address, timestamp, cause FROM missing_magic WHERE cause IS NOT NULL
        UNION ALL
        SELECT lacks, chain, token_address, timestamp, cause
        FROM missing_holders
        SEMI JOIN (SELECT * RENAME (side AS lacks) FROM wallets WHERE kind = 'magic')
            USING (lacks, chain, token_address, timestamp, address)
    )
    GROUP BY ALL
) AS others USING (lacks, chain, token_address, timestamp);

-- Links with exchanges in windows of time: why a side lacks the window, if it has the wallet.
CREATE TABLE windows AS
WITH used AS (
    SELECT
        side AS has, links.chain, links.token_address, links.timestamp, time_node, nodes.address AS exchange,
        CASE WHEN from_address = nodes.address THEN to_address ELSE from_address END AS address
    FROM links
    JOIN nodes USING (side, chain, token_address, timestamp, time_node)
)
SELECT
    lacks, chain, token_address, timestamp, time_node, any_value(exchange) AS exchange,
    CASE
        WHEN NOT any_value(mine).use_time_nodes AND any_value(its).use_time_nodes THEN 'other limits'
        WHEN count(relabelled.chain) > 0 THEN 'other labels'
        WHEN any_value(mine).time_rules <> any_value(its).time_rules THEN 'other thresholds'
        WHEN count(*) - count(gone.address) < 2 THEN mode(gone.cause)
        ELSE any_value(state)
    END AS cause
FROM used
JOIN sides USING (has, chain, token_address, timestamp)
LEFT JOIN gone USING (lacks, chain, token_address, timestamp, address)
LEFT JOIN relabelled ON relabelled.chain = used.chain AND relabelled.address = exchange
GROUP BY ALL;

CREATE TABLE link_causes AS
SELECT
    differing_links.*,
    CASE
        WHEN delays.is_late AND is_recent THEN 'lateness'
        WHEN lacks IS NULL AND transfers_a = transfers_b AND factor <> 0 THEN 'other decimals'
        WHEN lacks IS NULL AND delays.is_late AND lacking.chain IS NULL THEN 'lateness'
        WHEN lacks IS NULL THEN CASE WHEN transfers_a <> transfers_b THEN 'transfers' ELSE 'unexplained' END
        WHEN one.address IS NOT NULL THEN one.cause
        WHEN other.address IS NOT NULL THEN other.cause
        WHEN in_window <> '' THEN windows.cause
        WHEN is_hidden THEN 'other thresholds'
        WHEN lacking.chain IS NOT NULL THEN lasting
        ELSE coalesce(late, 'unexplained')
    END AS cause
FROM differing_links
LEFT JOIN (SELECT chain, token_address, timestamp, max(factor) AS factor FROM factors GROUP BY ALL)
    USING (chain, token_address, timestamp)
LEFT JOIN delays USING (chain, token_address, timestamp)
LEFT JOIN sides USING (lacks, chain, token_address, timestamp)
LEFT JOIN (SELECT *, address AS from_address FROM gone) AS one
    USING (lacks, chain, token_address, timestamp, from_address)
LEFT JOIN (SELECT *, address AS to_address FROM gone) AS other USING (lacks, chain, token_address, timestamp, to_address)
LEFT JOIN windows USING (lacks, chain, token_address, timestamp, time_node)
LEFT JOIN lacking ON lacking.chain = sent_chain AND lacking.token_address = sent_token;

-- The cause of nearly all rows of a map.
CREATE TABLE map_causes AS
SELECT chain, token_address, timestamp, cause
FROM (
    SELECT chain, token_address, timestamp, cause FROM gone
    UNION ALL SELECT chain, token_address, timestamp, cause FROM link_causes
    UNION ALL SELECT chain, token_address, timestamp, cause FROM holder_differences WHERE what = 'amount'
)
WHERE cause <> 'other decimals'
GROUP BY chain, token_address, timestamp, cause
QUALIFY count(*) >= 0.8 * sum(count(*)) OVER (PARTITION BY chain, token_address, timestamp);

CREATE TABLE relationship_differences AS
SELECT
    chain, token_address, timestamp, 'relationship' AS what,
    concat_ws(
        ' ', from_address, 'to', to_address, 'of ' || nullif(sent_token, token_address),
        'on ' || nullif(sent_chain, chain), 'as ' || nullif(rel_type, 'GROUPED_TRANSFER')
    ) AS subject,
    CASE WHEN in_a = 'a' THEN concat(exact_a, ' in ', transfers_a) END AS a,
    CASE WHEN in_b = 'b' THEN concat(exact_b, ' in ', transfers_b) END AS b,
    coalesce(link_causes.cause, map_causes.cause, 'unexplained') AS cause
FROM link_causes
LEFT JOIN map_causes USING (chain, token_address, timestamp)
WHERE in_window = '';

CREATE TABLE cluster_differences AS
WITH members AS (
    SELECT 'a' AS side, * FROM a.cluster_members UNION ALL BY NAME SELECT 'b' AS side, * FROM b.cluster_members
),
clusters AS (
    SELECT
        side, chain, token_address, timestamp, cluster_id, list(address) AS members,
        list_sort(list(address) FILTER (kind = 'holder')) AS holders
    FROM members
    SEMI JOIN drawn USING (chain, token_address, timestamp)
    GROUP BY ALL
),
single AS (
    FROM clusters
    ANTI JOIN clusters AS other ON other.side <> clusters.side
        AND (other.chain, other.token_address, other.timestamp, other.holders)
            = (clusters.chain, clusters.token_address, clusters.timestamp, clusters.holders)
),
touched AS (
    SELECT chain, token_address, timestamp, unnest([from_address, to_address]) AS address, cause, in_window <> '' AS is_weak
    FROM link_causes
    WHERE lacks IS NOT NULL
    UNION ALL
    SELECT chain, token_address, timestamp, address, cause, false FROM gone
),
reasons AS (
    SELECT
        side, chain, token_address, timestamp, cluster_id,
        coalesce(mode(cause) FILTER (NOT is_weak), mode(cause)) AS cause
    FROM (SELECT *, unnest(members) AS address FROM single)
    JOIN touched USING (chain, token_address, timestamp, address)
    GROUP BY ALL
)
SELECT
    chain, token_address, timestamp, 'cluster' AS what, array_to_string(holders[:3], ', ') AS subject,
    CAST(max(len(holders)) FILTER (side = 'a') AS VARCHAR) AS a,
    CAST(max(len(holders)) FILTER (side = 'b') AS VARCHAR) AS b,
    coalesce(mode(reasons.cause), any_value(map_causes.cause), 'unexplained') AS cause
FROM single
LEFT JOIN reasons USING (side, chain, token_address, timestamp, cluster_id)
LEFT JOIN map_causes USING (chain, token_address, timestamp)
GROUP BY ALL;

-- A score counts all holders. Its cause is that of clusters, of amounts, of nodes, or the only one of the token.
CREATE TABLE score_differences AS
WITH reasons AS (
    SELECT chain, token_address, timestamp, place, mode(cause) AS cause
    FROM (
        SELECT chain, token_address, timestamp, 1 AS place, cause FROM cluster_differences
        UNION ALL SELECT chain, token_address, timestamp, 2, cause FROM holder_differences WHERE what = 'amount'
        UNION ALL SELECT chain, token_address, timestamp, 3, cause FROM missing_holders
        UNION ALL SELECT chain, token_address, timestamp, 4, cause FROM link_causes
    )
    WHERE cause NOT IN ('unexplained', 'other decimals')
    GROUP BY chain, token_address, timestamp, place
    QUALIFY place = min(place) OVER (PARTITION BY chain, token_address, timestamp)
)
SELECT
    chain, token_address, timestamp, 'score' AS what, '' AS subject, CAST(mine.service_score AS VARCHAR) AS a,
    CAST(its.service_score AS VARCHAR) AS b,
    coalesce(
        reasons.cause,
        CASE
            WHEN mine.use_time_nodes <> its.use_time_nodes OR mine.holder_limit <> its.holder_limit THEN 'other limits'
            WHEN mine.rules <> its.rules THEN 'other thresholds'
            WHEN state IS NOT NULL THEN state
            WHEN EXISTS (FROM relabelled WHERE relabelled.chain = sides.chain) THEN 'other labels'
        END,
        'unexplained'
    ) AS cause
FROM sides
LEFT JOIN reasons USING (chain, token_address, timestamp)
WHERE lacks = 'a' AND mine.service_score IS DISTINCT FROM its.service_score
    AND coalesce(abs(mine.service_score - its.service_score) > 0.01, true);
