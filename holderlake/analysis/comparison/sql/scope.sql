-- What the homes (the attached databases a and b) record, and hypotheses about them, each tested on all rows of a token
-- or chain. A column "side" is a or b.

-- Maps that both homes have, with the options and rules of each side; null where they are not recorded.
CREATE TABLE drawn AS
SELECT
    side, chain, token_address, timestamp, holder_limit, use_magic_nodes, use_time_nodes, service_score, rules,
    TRY_CAST(rules ->> 'magic_links' AS BIGINT) AS magic_links,
    TRY_CAST(rules ->> 'magic_limit' AS BIGINT) AS magic_limit,
    TRY_CAST(rules ->> 'supernode_degree' AS BIGINT) AS supernode_degree,
    TRY_CAST(rules ->> 'hypernode_transfers' AS BIGINT) AS hypernode_transfers,
    rules ->> ['$.time_window', '$.time_links', '$.time_wallets', '$.time_limit', '$.time_allowed'] AS time_rules
FROM (
    SELECT * REPLACE (TRY_CAST(rules AS JSON) AS rules)
    FROM (SELECT 'a' AS side, * FROM a.maps UNION ALL BY NAME SELECT 'b' AS side, * FROM b.maps)
)
SEMI JOIN a.maps USING (chain, token_address, timestamp)
SEMI JOIN b.maps USING (chain, token_address, timestamp);

CREATE TABLE nodes AS
SELECT *
FROM (SELECT 'a' AS side, * FROM a.map_nodes UNION ALL BY NAME SELECT 'b' AS side, * FROM b.map_nodes)
SEMI JOIN drawn USING (chain, token_address, timestamp);

-- Lists of holders: those of the table holders, and the top holders of maps.
CREATE TABLE lists AS
SELECT
    side, list, chain, token_address, timestamp, address, rank, share, holder_limit, degree,
    regexp_replace(coalesce(amount_exact, CAST(amount AS VARCHAR)), '(\.\d*?)0+$', '\1').rtrim('.') AS exact,
    CAST(exact AS DOUBLE) AS size, label, is_cex AS cex, is_dex AS dex, is_contract AS contract
FROM (
    SELECT 'a' AS side, 'holders' AS list, * FROM a.holders
    UNION ALL BY NAME SELECT 'b' AS side, 'holders' AS list, * FROM b.holders
    UNION ALL BY NAME SELECT 'map' AS list, nodes.*, holder_limit
    FROM nodes JOIN drawn USING (side, chain, token_address, timestamp) WHERE kind = 'top_holder'
);

-- Where each list ends. An unrecorded limit is the length of the home's longest list. is_detailed: labels were
-- requested, so an address without one has none.
CREATE TABLE ends AS
SELECT
    * REPLACE (coalesce(holder_limit, max(holders) OVER (PARTITION BY side, list)) AS holder_limit)
FROM (
    SELECT
        side, list, chain, token_address, timestamp, count(*) AS holders, min(size) AS least,
        max(holder_limit) AS holder_limit, bool_or(contract IS NOT NULL) AS is_detailed,
        bit_xor(hash(address, exact)) AS content
    FROM lists
    GROUP BY ALL
);

CREATE TABLE pairs AS
WITH one AS (FROM lists WHERE side = 'a'), other AS (FROM lists WHERE side = 'b')
SELECT
    list, chain, token_address, timestamp, address,
    one.side AS in_a, other.side AS in_b, one.rank AS rank_a, other.rank AS rank_b,
    one.exact AS exact_a, other.exact AS exact_b, one.size AS size_a, other.size AS size_b,
    one.share AS share_a, other.share AS share_b, one.degree AS degree_a, other.degree AS degree_b,
    {label: one.label, cex: one.cex, dex: one.dex, contract: one.contract} AS label_a,
    {label: other.label, cex: other.cex, dex: other.dex, contract: other.contract} AS label_b,
    in_a IS NOT NULL AND in_b IS NOT NULL AS is_common, is_common AND exact_a IS DISTINCT FROM exact_b AS has_other_amount,
    coalesce(round(log10(abs(nullif(size_a, 0) / nullif(size_b, 0))), 6), 0) AS ratio
FROM one
FULL JOIN other USING (list, chain, token_address, timestamp, address)
SEMI JOIN (FROM ends WHERE side = 'a') USING (list, chain, token_address, timestamp)
SEMI JOIN (FROM ends WHERE side = 'b') USING (list, chain, token_address, timestamp);

-- Relationships of both sides. Those of a time node are matched by the time of their first transfer.
CREATE TABLE links AS
SELECT
    side, chain, token_address, timestamp, from_address, to_address, coalesce(transfer_chain, chain) AS sent_chain,
    coalesce(transfer_token, token_address) AS sent_token, rel_type, time_node, last_date,
    CASE WHEN time_node IS NULL THEN '' ELSE CAST(first_date AS VARCHAR) END AS in_window,
    total_transfers AS transfers, coalesce(total_value_exact, CAST(total_value AS VARCHAR)) AS exact,
    CAST(exact AS DOUBLE) AS size
FROM (
    SELECT 'a' AS side, * FROM a.grouped_transfers
    UNION ALL BY NAME SELECT 'b' AS side, * FROM b.grouped_transfers
)
SEMI JOIN drawn USING (chain, token_address, timestamp);

CREATE TABLE link_pairs AS
WITH one AS (FROM links WHERE side = 'a'), other AS (FROM links WHERE side = 'b')
SELECT
    chain, token_address, timestamp, from_address, to_address, sent_chain, sent_token, rel_type, in_window,
    one.side AS in_a, other.side AS in_b, one.exact AS exact_a, other.exact AS exact_b,
    one.transfers AS transfers_a, other.transfers AS transfers_b, one.size AS size_a, other.size AS size_b,
    coalesce(one.time_node, other.time_node) AS time_node, one.last_date <> other.last_date AS has_other_times,
    CASE WHEN other.side IS NULL THEN 'b' WHEN one.side IS NULL THEN 'a' END AS lacks
FROM one
FULL JOIN other
    USING (chain, token_address, timestamp, from_address, to_address, sent_chain, sent_token, rel_type, in_window);

-- Whether a side's rows are those of another instant. Then its list is the other side's of that instant, or amounts that
-- differ are equal at the next instant, while the difference that a missing transfer makes stays. Or most relationships
-- on the chain have the same transfers at other times.
CREATE TABLE delays AS
WITH steps AS (
    SELECT
        chain, token_address, timestamp, has_other_amount,
        lead(has_other_amount) OVER later AS differs_next, size_a - size_b AS gap, lead(gap) OVER later AS next_gap,
        (lag(exact_a) OVER later = exact_a AND exact_a = lead(exact_a) OVER later)
            OR (lag(exact_b) OVER later = exact_b AND exact_b = lead(exact_b) OVER later) AS is_constant
    FROM pairs
    WHERE is_common
    WINDOW later AS (PARTITION BY list, chain, token_address, address ORDER BY timestamp)
),
counted AS (
    SELECT
        chain, token_address, timestamp,
        count_if(has_other_amount AND NOT differs_next AND NOT is_constant) AS healed,
        count_if(has_other_amount AND (is_constant OR abs(gap - next_gap) <= 1e-9 * abs(gap))) AS lasting
    FROM steps
    RIGHT JOIN (SELECT DISTINCT chain, token_address, timestamp FROM pairs) USING (chain, token_address, timestamp)
    GROUP BY ALL
),
shifted AS (
    SELECT DISTINCT one.chain, one.token_address, one.timestamp
    FROM ends AS one
    JOIN ends AS other USING (list, chain, token_address, timestamp)
    JOIN ends AS earlier ON earlier.side = one.side AND earlier.list = one.list AND earlier.chain = one.chain
        AND earlier.token_address = one.token_address AND earlier.timestamp < one.timestamp
        AND earlier.content = other.content
    WHERE other.side <> one.side AND other.content <> one.content
)
SELECT
    chain, token_address, timestamp,
    shifted.chain IS NOT NULL OR other_times.chain IS NOT NULL OR (healed > 2 AND healed > 9 * lasting) OR CASE
        WHEN sum(healed + lasting) OVER token > 4 THEN sum(healed) OVER token > sum(lasting) OVER token
        ELSE sum(healed) OVER chain > sum(lasting) OVER chain
    END AS is_late
FROM counted
LEFT JOIN shifted USING (chain, token_address, timestamp)
LEFT JOIN (
    SELECT chain
    FROM link_pairs
    WHERE transfers_a = transfers_b AND size_a = size_b
    GROUP BY chain
    HAVING count_if(has_other_times) > count(*) / 2
) AS other_times USING (chain)
WINDOW token AS (PARTITION BY chain, token_address), chain AS (PARTITION BY chain);

-- Instants of lists that both homes have. factor: the power of ten between most amounts; 0 if most are equal. is_supply:
-- all shares differ by one factor.
CREATE TABLE scope AS
SELECT
    list, chain, token_address, timestamp, coalesce(bool_or(is_late), false) AS is_late,
    CASE WHEN count_if(is_common) > 2 THEN mode(ratio) FILTER (is_common) ELSE 0 END AS factor,
    coalesce(max(share_a / nullif(share_b, 0)) - min(share_a / nullif(share_b, 0)) < 1e-5, false) AS is_supply
FROM pairs
LEFT JOIN delays USING (chain, token_address, timestamp)
GROUP BY ALL;

-- Kinds of addresses, as far as a home knows them, over all tokens and instants of a chain.
CREATE TABLE kinds AS
SELECT side, chain, address, bool_or(is_cex) AS cex, bool_or(is_dex) AS dex, bool_or(is_contract) AS contract
FROM (
    SELECT side, chain, address, is_cex, is_dex, is_contract FROM nodes
    UNION ALL SELECT side, chain, address, cex, dex, contract FROM lists WHERE list = 'holders'
)
WHERE is_contract IS NOT NULL
GROUP BY ALL;

-- Addresses of another kind. side: the home that has more kinds of the address.
CREATE TABLE relabelled AS
SELECT one.chain, address, CASE WHEN one.cex OR one.dex OR one.contract THEN 'a' ELSE 'b' END AS side
FROM kinds AS one
JOIN kinds AS other USING (chain, address)
WHERE one.side = 'a' AND other.side = 'b'
    AND (one.cex, one.dex, one.contract) IS DISTINCT FROM (other.cex, other.dex, other.contract);

-- Tokens of which a side lacks transfers: amounts differ, or the transfers of relationships. With amounts and with
-- missing relationships, numbers of counterparties must differ too: for amounts on the same chain, if they are known and
-- more than two amounts differ. What is late, and amounts that differ by one factor, are no evidence.
CREATE TABLE lacking AS
WITH degrees AS (
    SELECT chain, token_address, timestamp, address, min(degree) <> max(degree) AS is_other
    FROM nodes
    GROUP BY ALL
),
evidence AS (
    SELECT
        chain, token_address, degree_a IS DISTINCT FROM degree_b AS is_proof,
        degree_a IS NOT NULL AND degree_b IS NOT NULL AS is_known
    FROM pairs
    JOIN scope USING (list, chain, token_address, timestamp)
    WHERE has_other_amount AND NOT is_late AND (factor = 0 OR ratio <> factor)
    UNION ALL
    SELECT sent_chain, sent_token, true, true
    FROM link_pairs
    LEFT JOIN delays USING (chain, token_address, timestamp)
    LEFT JOIN degrees AS sender ON sender.address = from_address AND (sender.chain, sender.token_address, sender.timestamp)
        = (link_pairs.chain, link_pairs.token_address, link_pairs.timestamp)
    LEFT JOIN degrees AS receiver ON receiver.address = to_address
        AND (receiver.chain, receiver.token_address, receiver.timestamp)
            = (link_pairs.chain, link_pairs.token_address, link_pairs.timestamp)
    WHERE in_window = '' AND is_late IS DISTINCT FROM true
        AND (transfers_a <> transfers_b OR (lacks IS NOT NULL AND sender.is_other AND receiver.is_other))
)
SELECT DISTINCT chain, token_address
FROM evidence
JOIN (
    SELECT chain, bool_or(is_proof AND is_known) OR count(*) < 3 OR NOT bool_or(is_known) AS is_proven
    FROM evidence
    GROUP BY chain
) USING (chain)
WHERE is_proven;
