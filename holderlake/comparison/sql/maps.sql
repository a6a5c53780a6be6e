-- Differences of maps: relationships, clusters and scores. A map's facts explain them: its limit, its rules, and labels.
CREATE TABLE drawn AS
SELECT
    chain, token_address, timestamp,
    one.holder_limit IS DISTINCT FROM other.holder_limit
        OR one.use_magic_nodes IS DISTINCT FROM other.use_magic_nodes
        OR one.use_time_nodes IS DISTINCT FROM other.use_time_nodes AS other_limits,
    coalesce(one.rules <> other.rules, false) AS other_rules,
    one.service_score AS score_a,
    other.service_score AS score_b
FROM a.maps AS one
JOIN b.maps AS other USING (chain, token_address, timestamp);

CREATE TABLE labelled AS
SELECT DISTINCT chain, token_address, timestamp
FROM a.map_nodes AS one
JOIN b.map_nodes AS other USING (chain, token_address, timestamp, address)
WHERE (one.is_cex, one.is_dex, one.is_contract) IS DISTINCT FROM (other.is_cex, other.is_dex, other.is_contract);

CREATE TABLE relationship_differences AS
WITH drawn_a AS (
    SELECT
        * REPLACE (coalesce(transfer_chain, chain) AS transfer_chain, coalesce(transfer_token, token_address) AS transfer_token),
        true AS is_known
    FROM a.grouped_transfers
    WHERE time_node IS NULL
),
drawn_b AS (
    SELECT
        * REPLACE (coalesce(transfer_chain, chain) AS transfer_chain, coalesce(transfer_token, token_address) AS transfer_token),
        true AS is_known
    FROM b.grouped_transfers
    WHERE time_node IS NULL
),
pairs AS (
    SELECT
        chain, token_address, timestamp, from_address, to_address, transfer_chain, transfer_token, rel_type,
        one.is_known AS is_in_a, other.is_known AS is_in_b,
        one.total_transfers AS count_a, other.total_transfers AS count_b,
        coalesce(one.total_value_exact, CAST(one.total_value AS VARCHAR)) AS exact_a,
        coalesce(other.total_value_exact, CAST(other.total_value AS VARCHAR)) AS exact_b
    FROM drawn_a AS one
    FULL JOIN drawn_b AS other
        USING (chain, token_address, timestamp, from_address, to_address, transfer_chain, transfer_token, rel_type)
    SEMI JOIN drawn USING (chain, token_address, timestamp)
),
nodes AS (
    SELECT 'a' AS side, chain, token_address, timestamp, address FROM a.map_nodes
    UNION ALL
    SELECT 'b', chain, token_address, timestamp, address FROM b.map_nodes
),
ends AS (
    SELECT
        pairs.*,
        CASE WHEN is_in_a IS NULL THEN 'a' WHEN is_in_b IS NULL THEN 'b' END AS lacks
    FROM pairs
    WHERE is_in_a IS NULL OR is_in_b IS NULL OR count_a IS DISTINCT FROM count_b OR CAST(exact_a AS DOUBLE) IS DISTINCT FROM CAST(exact_b AS DOUBLE)
)
SELECT
    ends.chain, ends.token_address, ends.timestamp, 'relationship' AS what,
    concat_ws(
        ' ', from_address, 'to', to_address, 'of ' || nullif(transfer_token, ends.token_address),
        'on ' || nullif(transfer_chain, ends.chain), 'as ' || nullif(rel_type, 'GROUPED_TRANSFER')
    ) AS subject,
    CASE WHEN is_in_a THEN concat(exact_a, ' in ', count_a) END AS a,
    CASE WHEN is_in_b THEN concat(exact_b, ' in ', count_b) END AS b,
    CASE
        WHEN coalesce(scope.is_late, false) THEN 'lateness'
        WHEN count_a = count_b AND scope.decimals IS NOT NULL THEN 'other decimals'
        WHEN lacks IS NULL THEN 'transfers'
        WHEN known.nodes = 2 THEN 'transfers'
        WHEN labelled.chain IS NOT NULL THEN 'other labels'
        WHEN drawn.other_limits THEN 'other limits'
        WHEN drawn.other_rules THEN 'other thresholds'
        ELSE 'transfers'
    END AS cause
FROM ends
JOIN drawn USING (chain, token_address, timestamp)
LEFT JOIN scope USING (chain, token_address, timestamp)
LEFT JOIN labelled USING (chain, token_address, timestamp)
LEFT JOIN LATERAL (
    SELECT count(DISTINCT address) AS nodes
    FROM nodes
    WHERE nodes.side = lacks AND nodes.chain = ends.chain AND nodes.token_address = ends.token_address
        AND nodes.timestamp = ends.timestamp AND nodes.address IN (from_address, to_address)
) AS known ON true;

CREATE TABLE cluster_differences AS
WITH sets AS (
    SELECT 'a' AS side, chain, token_address, timestamp, list_sort(list(address)) AS members
    FROM a.cluster_members
    WHERE kind = 'holder'
    GROUP BY chain, token_address, timestamp, cluster_id
    UNION ALL
    SELECT 'b', chain, token_address, timestamp, list_sort(list(address))
    FROM b.cluster_members
    WHERE kind = 'holder'
    GROUP BY chain, token_address, timestamp, cluster_id
),
single AS (
    SELECT chain, token_address, timestamp, members, any_value(side) AS side
    FROM sets
    SEMI JOIN drawn USING (chain, token_address, timestamp)
    GROUP BY chain, token_address, timestamp, members
    HAVING count(*) = 1
),
reasons AS (
    SELECT chain, token_address, timestamp, mode(cause) AS cause
    FROM (
        SELECT chain, token_address, timestamp, cause FROM relationship_differences
        UNION ALL
        SELECT chain, token_address, timestamp, cause FROM holder_differences WHERE cause <> 'ties'
    )
    GROUP BY ALL
)
SELECT
    chain, token_address, timestamp, 'cluster' AS what, subject, CAST(size_a AS VARCHAR) AS a, CAST(size_b AS VARCHAR) AS b,
    CASE
        WHEN drawn.other_limits THEN 'other limits'
        WHEN labelled.chain IS NOT NULL THEN 'other labels'
        WHEN drawn.other_rules AND reasons.cause IS NULL THEN 'other thresholds'
        ELSE coalesce(reasons.cause, 'unknown')
    END AS cause
FROM (
    SELECT
        chain, token_address, timestamp, array_to_string(members[:3], ', ') AS subject,
        max(len(members)) FILTER (side = 'a') AS size_a, max(len(members)) FILTER (side = 'b') AS size_b
    FROM single
    GROUP BY ALL
) AS sizes
JOIN drawn USING (chain, token_address, timestamp)
LEFT JOIN labelled USING (chain, token_address, timestamp)
LEFT JOIN reasons USING (chain, token_address, timestamp);

CREATE TABLE score_differences AS
WITH reasons AS (
    SELECT chain, token_address, timestamp, mode(cause) AS cause
    FROM (FROM holder_differences UNION ALL FROM relationship_differences UNION ALL FROM cluster_differences)
    WHERE cause <> 'ties'
    GROUP BY ALL
)
SELECT
    chain, token_address, timestamp, 'score' AS what, '' AS subject, CAST(score_a AS VARCHAR) AS a,
    CAST(score_b AS VARCHAR) AS b,
    coalesce(reasons.cause, CASE WHEN other_rules THEN 'other thresholds' WHEN other_limits THEN 'other limits' ELSE 'unknown' END) AS cause
FROM drawn
LEFT JOIN reasons USING (chain, token_address, timestamp)
WHERE score_a IS DISTINCT FROM score_b AND coalesce(abs(score_a - score_b) > 0.01, true);
