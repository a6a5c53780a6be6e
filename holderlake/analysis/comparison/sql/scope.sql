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
    coalesce(transfer_token, token_address) AS sent_token, rel_type, time_node, epoch(first_date) AS first, epoch(last_date) AS last,
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
    coalesce(one.time_node, other.time_node) AS time_node,
    one.first AS first_a, other.first AS first_b, one.last AS last_a, other.last AS last_b,
    CASE WHEN other.side IS NULL THEN 'b' WHEN one.side IS NULL THEN 'a' END AS lacks
FROM one
FULL JOIN other
    USING (chain, token_address, timestamp, from_address, to_address, sent_chain, sent_token, rel_type, in_window);

-- How far each side's links reach (a_until, b_until: unix seconds by the clock of a, over links that both have), and the
-- seconds by which b's clock differs (shift), if most links of the chain with the same transfers have other times.
CREATE TABLE reach AS
SELECT chain, token_address, timestamp, any_value(shift) AS shift, max(last_a) AS a_until, max(last_b - shift) AS b_until
FROM link_pairs
JOIN (
    SELECT chain, CASE WHEN count_if(last_a <> last_b) > count(*) / 2 THEN mode(last_b - last_a) ELSE 0 END AS shift
    FROM link_pairs
    WHERE transfers_a = transfers_b
    GROUP BY chain
) USING (chain)
WHERE lacks IS NULL
GROUP BY ALL;

-- Differing links. is_recent: the side that is behind can't have the transfers, as it reaches less far, or has no link yet.
-- is_hidden: the side that lacks the link leaves it out because both ends have too many counterparties for its rules.
CREATE TABLE differing_links AS
WITH counted AS (
    SELECT side, chain, token_address, timestamp, address, max(degree) AS degree
    FROM nodes
    GROUP BY ALL
)
SELECT
    link_pairs.*,
    coalesce(
        mine.supernode_degree < its.supernode_degree AND least(sender.degree, receiver.degree) >= mine.supernode_degree,
        false
    ) AS is_hidden,
    coalesce(
        CASE lacks
            WHEN 'a' THEN first_b - shift > a_until
            WHEN 'b' THEN first_a > b_until
            ELSE last_a > b_until OR last_b - shift > a_until
        END,
        lacks IS NOT NULL AND reach.chain IS NULL
    ) AS is_recent
FROM link_pairs
LEFT JOIN reach USING (chain, token_address, timestamp)
LEFT JOIN (SELECT * RENAME (side AS lacks) FROM drawn) AS mine USING (lacks, chain, token_address, timestamp)
LEFT JOIN (SELECT * EXCLUDE (side), CASE side WHEN 'a' THEN 'b' ELSE 'a' END AS lacks FROM drawn) AS its
    USING (lacks, chain, token_address, timestamp)
LEFT JOIN (SELECT * EXCLUDE (side), CASE side WHEN 'a' THEN 'b' ELSE 'a' END AS lacks FROM counted) AS sender
    ON (sender.lacks, sender.chain, sender.token_address, sender.timestamp, sender.address)
        = (link_pairs.lacks, link_pairs.chain, link_pairs.token_address, link_pairs.timestamp, from_address)
LEFT JOIN (SELECT * EXCLUDE (side), CASE side WHEN 'a' THEN 'b' ELSE 'a' END AS lacks FROM counted) AS receiver
    ON (receiver.lacks, receiver.chain, receiver.token_address, receiver.timestamp, receiver.address)
        = (link_pairs.lacks, link_pairs.chain, link_pairs.token_address, link_pairs.timestamp, to_address)
WHERE lacks IS NOT NULL OR transfers_a IS DISTINCT FROM transfers_b OR size_a IS DISTINCT FROM size_b;

-- The power of ten between most amounts of a list; 0 if most are equal. One that is not whole (amounts doubled) is that of half
-- of them: a few equal ratios are chance. is_supply: all shares differ by one factor.
-- has_lasting_supply: supplies differ, as much as at the instant before or at the next one.
CREATE TABLE factors AS
SELECT
    * EXCLUDE (supply, common_ratio),
    supply <> 1 AND (lag(supply) OVER later = supply OR lead(supply) OVER later = supply) AS has_lasting_supply
FROM (
    SELECT
        list, chain, token_address, timestamp,
        mode(ratio) FILTER (is_common) AS common_ratio,
        CASE
            WHEN count_if(is_common) > 2 AND (
                common_ratio = round(common_ratio)
                OR quantile_disc(ratio, 0.25) FILTER (is_common) = quantile_disc(ratio, 0.75) FILTER (is_common)
            ) THEN common_ratio
            ELSE 0
        END AS factor,
        coalesce(max(share_a / nullif(share_b, 0)) - min(share_a / nullif(share_b, 0)) < 1e-5, false) AS is_supply,
        mode(round(share_a / nullif(share_b, 0), 9)) AS supply
    FROM pairs
    GROUP BY ALL
)
WINDOW later AS (PARTITION BY list, chain, token_address ORDER BY timestamp);

-- Amounts by address and instant. gap: their difference, where an address that one list lacks has nothing. is_same: the
-- amount changed since the instant before by less than a hundredth of the gap. is_kept: it does so until the next instant.
-- has_reached: one side has exactly the amount that the other one had at the instant before; will_reach: it has this one then.
CREATE MACRO is_near(one, other) AS abs(one - other) <= 1e-12 * abs(one);
CREATE TABLE gaps AS
WITH numbered AS (
    SELECT
        pairs.*, factor, is_supply, has_lasting_supply,
        coalesce(size_a, 0) AS held_a, coalesce(size_b, 0) * pow(10, factor) AS held_b,
        dense_rank() OVER (PARTITION BY list, chain, token_address ORDER BY timestamp) AS place,
        CASE
            WHEN exact_a = exact_b OR (factor <> 0 AND ratio = factor) THEN 0
            WHEN factor = 0 THEN coalesce(
                CAST(
                    TRY_CAST(coalesce(exact_a, '0') AS DECIMAL(38, 18)) - TRY_CAST(coalesce(exact_b, '0') AS DECIMAL(38, 18))
                    AS DOUBLE
                ),
                held_a - held_b
            )
            ELSE held_a - held_b
        END AS gap
    FROM pairs
    JOIN factors USING (list, chain, token_address, timestamp)
)
SELECT
    one.*, coalesce(earlier.gap, 0) AS last_gap, coalesce(later.gap, 0) AS next_gap, one.place < places AS has_next,
    one.place > 1 AND abs(one.held_a - coalesce(earlier.held_a, 0)) <= abs(one.gap) / 100 AS is_same_a,
    one.place > 1 AND abs(one.held_b - coalesce(earlier.held_b, 0)) <= abs(one.gap) / 100 AS is_same_b,
    has_next AND abs(one.held_a - coalesce(later.held_a, 0)) <= abs(one.gap) / 100 AS is_kept_a,
    has_next AND abs(one.held_b - coalesce(later.held_b, 0)) <= abs(one.gap) / 100 AS is_kept_b,
    one.place > 1 AND is_near(one.held_a, coalesce(earlier.held_b, 0)) AS a_repeats,
    one.place > 1 AND is_near(one.held_b, coalesce(earlier.held_a, 0)) AS b_repeats,
    earlier.in_a IS NOT NULL AS was_in_a, earlier.in_b IS NOT NULL AS was_in_b, a_repeats OR b_repeats AS has_reached,
    coalesce(later.held_b = one.held_a OR later.held_a = one.held_b, false) AS will_reach
FROM numbered AS one
JOIN (SELECT list, chain, token_address, max(place) AS places FROM numbered GROUP BY ALL) USING (list, chain, token_address)
LEFT JOIN (SELECT * REPLACE (place + 1 AS place) FROM numbered) AS earlier USING (list, chain, token_address, address, place)
LEFT JOIN (SELECT * REPLACE (place - 1 AS place) FROM numbered) AS later USING (list, chain, token_address, address, place);

-- Instants at which a side is behind, and the side that is ahead (null if no link shows it). A side is behind if the
-- other one has links that reach further, if its list is the other side's of an earlier instant, if most relationships
-- of the chain have other times, or if amounts that differ are equal at the next instant, while the difference that a
-- missing transfer makes stays.
CREATE TABLE delays AS
WITH counted AS (
    SELECT
        chain, token_address, timestamp, count_if(is_common AND gap <> 0 AND has_next AND next_gap = 0 AND NOT is_still) AS healed,
        count_if(is_common AND gap <> 0 AND (is_still OR (has_next AND abs(gap - next_gap) <= 1e-9 * abs(gap)))) AS lasting,
        count_if(is_common AND gap <> 0 AND place > 1) AS differing,
        count_if(is_common AND gap <> 0 AND a_repeats) AS repeated_in_a,
        count_if(is_common AND gap <> 0 AND b_repeats) AS repeated_in_b,
        count_if(is_common AND gap <> 0 AND will_reach) AS reaching
    FROM (SELECT *, (is_same_a AND is_kept_a) OR (is_same_b AND is_kept_b) AS is_still FROM gaps)
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
),
reached AS (
    SELECT
        chain, token_address, timestamp, shift, count_if(lacks IS NULL AND is_recent) AS recent, CASE WHEN a_until > b_until THEN 'a' WHEN a_until < b_until THEN 'b' END AS ahead
    FROM reach
    LEFT JOIN differing_links USING (chain, token_address, timestamp)
    GROUP BY ALL
)
SELECT
    chain, token_address, timestamp, CASE WHEN sum(recent) OVER token > 2 THEN mode(ahead) OVER token END AS ahead,
    CASE
        WHEN 2 * sum(repeated_in_a) OVER token > sum(differing) OVER token THEN 'a'
        WHEN 2 * sum(repeated_in_b) OVER token > sum(differing) OVER token THEN 'b'
    END AS repeats,
    shifted.chain IS NOT NULL OR coalesce(shift, 0) <> 0 OR coalesce(sum(recent) OVER token > 2, false)
        OR (sum(repeated_in_a + repeated_in_b + reaching) OVER chain > 0 AND ((healed > 2 AND healed > 9 * lasting) OR CASE
            WHEN sum(healed + lasting) OVER token > 4 THEN sum(healed) OVER token > sum(lasting) OVER token
            ELSE sum(healed) OVER chain > sum(lasting) OVER chain
        END)) AS is_late
FROM counted
LEFT JOIN shifted USING (chain, token_address, timestamp)
LEFT JOIN reached USING (chain, token_address, timestamp)
WINDOW token AS (PARTITION BY chain, token_address), chain AS (PARTITION BY chain);

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

-- Lists, and whether each differing amount or supply is that of another instant (is_delayed). It is not if the side that
-- is ahead has the same amount at the instant before, as the other side then had the time to have it too; or if it has the
-- same amount at the next instant, and the difference stays; or if the difference is that of the instant before or after
-- (one item may be another one) and no side reaches the other's earlier amount; or if a link of the address differs that is not recent.
CREATE TABLE scope AS
WITH shared AS (
    SELECT chain, token_address, timestamp, address
    FROM gaps
    ANTI JOIN relabelled USING (chain, address)
    WHERE list = 'map' AND is_common
),
linked AS (
    SELECT chain, token_address, timestamp, address, bool_and(is_recent) AS is_recent
    FROM (
        SELECT links.*, unnest([from_address, to_address]) AS address
        FROM differing_links AS links
        LEFT JOIN shared AS sender ON sender.address = from_address AND (sender.chain, sender.token_address, sender.timestamp)
            = (links.chain, links.token_address, links.timestamp)
        LEFT JOIN shared AS receiver ON receiver.address = to_address
            AND (receiver.chain, receiver.token_address, receiver.timestamp)
                = (links.chain, links.token_address, links.timestamp)
        WHERE in_window = '' AND sent_chain = links.chain AND sent_token = links.token_address AND NOT is_hidden
            AND (
                is_recent OR transfers_a <> transfers_b
                OR (lacks IS NOT NULL AND sender.chain IS NOT NULL AND receiver.chain IS NOT NULL)
            )
    )
    GROUP BY ALL
),
lasting AS (
    SELECT
        gaps.*, is_late, linked.is_recent, repeats, NOT linked.is_recent
            OR ((gap = last_gap AND NOT has_reached) OR (gap = next_gap AND NOT will_reach)) AND abs(gap) <> 1
            OR CASE ahead WHEN 'a' THEN is_same_a WHEN 'b' THEN is_same_b ELSE is_same_a AND is_same_b END
            OR (abs(next_gap - gap) < abs(gap) / 2 AND CASE ahead WHEN 'a' THEN is_kept_a WHEN 'b' THEN is_kept_b ELSE is_kept_a AND is_kept_b END)
            AS is_lasting
    FROM gaps
    JOIN delays USING (chain, token_address, timestamp)
    LEFT JOIN linked USING (chain, token_address, timestamp, address)
)
SELECT
    *, is_late AND gap <> 0 AND CASE
        WHEN repeats = 'a' AND was_in_b THEN a_repeats
        WHEN repeats = 'b' AND was_in_a THEN b_repeats
        ELSE NOT coalesce(bool_or(is_lasting AND gap <> 0) OVER since, false)
    END AS is_delayed
FROM lasting
WINDOW since AS (PARTITION BY list, chain, token_address, address ORDER BY timestamp);

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
    FROM scope
    WHERE is_common AND gap <> 0 AND NOT is_delayed
    UNION ALL
    SELECT sent_chain, sent_token, true, true
    FROM differing_links AS links
    LEFT JOIN delays USING (chain, token_address, timestamp)
    LEFT JOIN degrees AS sender ON sender.address = from_address AND (sender.chain, sender.token_address, sender.timestamp)
        = (links.chain, links.token_address, links.timestamp)
    LEFT JOIN degrees AS receiver ON receiver.address = to_address
        AND (receiver.chain, receiver.token_address, receiver.timestamp)
            = (links.chain, links.token_address, links.timestamp)
    WHERE in_window = '' AND NOT coalesce(is_late AND (is_recent OR ahead IS NULL), false)
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
