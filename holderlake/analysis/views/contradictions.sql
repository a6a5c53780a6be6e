-- Rows that contradict each other or themselves, in the columns of data_quality, which includes them. A row is a kind of
-- contradiction in a token's answer: found counts its cases, what describes them and names one. Kinds: holders with more
-- than the holder of the rank before; a share that does not fit its amount; relations beyond the degree; a list and a
-- map of the same instant that differ about the largest holder; clusters of one holder; clusters whose counts or shares are not those of their
-- members; members that the map has no node of; transfers of an address with itself, without a transfer, with two dates
-- for one transfer, or after the instant; tokens whose dates and number of transfers exclude each other.
-- Example: SELECT chain, timestamp, subject, found, what FROM contradictions ORDER BY ALL;
CREATE OR REPLACE VIEW contradictions AS
WITH members AS (
    SELECT
        members.chain, members.timestamp, members.token_address, members.cluster_id,
        count(*) FILTER (members.kind = 'holder') AS holders,
        count(*) FILTER (members.kind = 'magic') AS magic,
        count(*) FILTER (members.kind = 'holder' AND nodes.address IS NULL) AS strangers,
        min(members.address) FILTER (members.kind = 'holder' AND nodes.address IS NULL) AS stranger,
        sum(nodes.share) FILTER (members.kind = 'holder') AS share
    FROM cluster_members AS members
    LEFT JOIN (FROM map_nodes WHERE kind = 'top_holder') AS nodes
        ON nodes.chain = members.chain
        AND nodes.timestamp = members.timestamp
        AND nodes.token_address = members.token_address
        AND nodes.address = members.address
    GROUP BY ALL
),
cases AS (
    SELECT
        chain, timestamp, 'holders' AS family, token_address, 'holders with more than the rank before' AS kind,
        'rank ' || rank AS one
    FROM (
        SELECT
            chain, timestamp, token_address, rank, amount,
            lag(amount) OVER (PARTITION BY chain, token_address, timestamp ORDER BY rank) AS amount_before
        FROM holders
    )
    WHERE amount > amount_before
    UNION ALL
    SELECT
        chain, timestamp, 'holders', token_address, 'shares that do not fit the amounts',
        'supply ' || min(amount / share) || ' to ' || max(amount / share)
    FROM holders
    WHERE share > 1e-6 AND amount > 0
    GROUP BY chain, timestamp, token_address
    HAVING max(amount / share) > 1.01 * min(amount / share)
    UNION ALL
    SELECT chain, timestamp, 'holders', token_address, 'addresses whose degree does not fit their relations', address
    FROM holders
    WHERE NOT degree BETWEEN greatest(inward_relations, outward_relations) AND inward_relations + outward_relations
    UNION ALL
    SELECT
        holders.chain, holders.timestamp, 'maps', holders.token_address,
        'largest holders who differ from the list of the same instant', nodes.address
    FROM holders
    JOIN map_nodes AS nodes
        ON nodes.chain = holders.chain
        AND nodes.timestamp = holders.timestamp
        AND nodes.token_address = holders.token_address
    WHERE holders.rank = 1 AND nodes.rank = 1 AND nodes.kind = 'top_holder' AND nodes.amount <> holders.amount
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, 'clusters of fewer than two holders', 'cluster ' || cluster_id
    FROM clusters
    WHERE holder_count < 2
    UNION ALL
    SELECT
        clusters.chain, clusters.timestamp, 'maps', clusters.token_address,
        'clusters with other counts than their members', 'cluster ' || clusters.cluster_id
    FROM clusters
    LEFT JOIN members USING (chain, timestamp, token_address, cluster_id)
    WHERE holder_count <> coalesce(holders, 0) OR magic_node_count <> coalesce(magic, 0)
    UNION ALL
    SELECT
        clusters.chain, clusters.timestamp, 'maps', clusters.token_address,
        'clusters with another share than their members', 'cluster ' || clusters.cluster_id
    FROM clusters
    JOIN members USING (chain, timestamp, token_address, cluster_id)
    WHERE strangers = 0 AND abs(clusters.share - members.share) > 1e-6
    UNION ALL
    SELECT chain, timestamp, 'maps', token_address, 'clusters with members that are no holder on the map', stranger
    FROM members
    WHERE strangers > 0
    UNION ALL
    SELECT
        chain, timestamp, 'maps', token_address,
        CASE
            WHEN from_address = to_address THEN 'transfers of an address with itself'
            WHEN total_transfers < 1 THEN 'relationships without a transfer'
            WHEN total_transfers = 1 AND first_date <> last_date THEN 'single transfers with two dates'
            ELSE 'transfers after the instant'
        END,
        from_address || ' to ' || to_address
    FROM grouped_transfers
    WHERE
        rel_type = 'GROUPED_TRANSFER'
        AND (
            from_address = to_address
            OR total_transfers < 1
            OR (total_transfers = 1 AND first_date <> last_date)
            OR last_date > timestamp + INTERVAL 1 DAY
        )
    UNION ALL
    SELECT chain, timestamp, 'tokens', token_address, 'tokens with a first transfer after the last', NULL
    FROM tokens
    WHERE min_date > max_date
    UNION ALL
    SELECT chain, timestamp, 'tokens', token_address, 'tokens with dates of transfers, but without transfers', NULL
    FROM tokens
    WHERE transfers_count = 0 AND max_date IS NOT NULL
)
SELECT
    'contradiction' AS issue, 'error' AS severity, chain, timestamp, family, token_address AS subject,
    count(*)::DOUBLE AS found, concat_ws(', such as ', kind, min(one)) AS what
FROM cases
GROUP BY chain, timestamp, family, token_address, kind;
