-- Alert when a holder of the first ranks (now or at the map before) sent the token to an exchange since the map before,
-- in at least as many transfers as the threshold. Time nodes of maps have such transfers, and named address sets, if
-- both addresses are members. The subject is the sender.
/*
table = "grouped_transfers"
sentence = "the top holder {subject} sent to an exchange, {measured:.0f} times"
unit = "transfers"
options.threshold = 1
options.top = 10
*/
WITH news AS (
    SELECT *
    FROM map_series
    SEMI JOIN watched USING (chain, token_address)
    WHERE timestamp BETWEEN $since AND $until AND previous_timestamp IS NOT NULL
),
receivers AS (
    SELECT chain, address, max(label) AS label
    FROM (
        SELECT chain, address, label FROM exchanges WHERE kind = 'cex'
        UNION ALL
        SELECT chain, address, label FROM map_nodes WHERE kind = 'time'
    )
    GROUP BY chain, address
),
senders AS (
    SELECT
        news.chain,
        news.token_address,
        news.timestamp,
        news.previous_timestamp,
        nodes.address,
        max(nodes.label) AS label,
        min(nodes.rank) FILTER (nodes.timestamp = news.timestamp) AS rank,
        min(nodes.rank) FILTER (nodes.timestamp = news.previous_timestamp) AS rank_before,
        max(nodes.share) FILTER (nodes.timestamp = news.timestamp) AS share,
        max(nodes.share) FILTER (nodes.timestamp = news.previous_timestamp) AS share_before
    FROM news
    JOIN map_nodes AS nodes
        ON nodes.chain = news.chain
        AND nodes.token_address = news.token_address
        AND nodes.timestamp IN (news.timestamp, news.previous_timestamp)
    WHERE nodes.kind = 'top_holder'
    GROUP BY ALL
    HAVING least(rank, rank_before) <= $top
),
known AS (
    SELECT
        chain, timestamp, token_address, from_address, to_address, rel_type, total_value, total_value_exact,
        total_transfers, first_date, last_date, time_node, 'map' AS source
    FROM grouped_transfers
    WHERE coalesce(transfer_chain, chain) = chain AND transfer_token = token_address
    UNION ALL
    SELECT
        chain, timestamp, transfer_token, from_address, to_address, rel_type, total_value, total_value_exact,
        total_transfers, first_date, last_date, NULL, address_set
    FROM subgraph_transfers
    WHERE coalesce(transfer_chain, chain) = chain
),
sent AS (
    SELECT
        senders.*,
        known.* EXCLUDE (chain, timestamp, token_address),
        receivers.label AS exchange,
        -- a sum counts from the first transfer on, a time node's window by itself
        greatest(
            1,
            known.total_transfers
            - CASE WHEN known.time_node IS NULL THEN coalesce(earlier.total_transfers, 0) ELSE 0 END
        ) AS transfers
    FROM senders
    JOIN known
        ON known.chain = senders.chain
        AND known.token_address = senders.token_address
        AND known.timestamp = senders.timestamp
        AND known.from_address = senders.address
    JOIN receivers ON receivers.chain = known.chain AND receivers.address = known.to_address
    LEFT JOIN known AS earlier
        ON known.time_node IS NULL
        AND earlier.time_node IS NULL
        AND earlier.chain = senders.chain
        AND earlier.token_address = senders.token_address
        AND earlier.timestamp = senders.previous_timestamp
        AND earlier.from_address = known.from_address
        AND earlier.to_address = known.to_address
        AND earlier.rel_type = known.rel_type
        AND earlier.source = known.source
    WHERE known.last_date > senders.previous_timestamp
),
-- a map and address sets may have the same transfers: the largest count is used
counted AS (
    SELECT chain, token_address, timestamp, address, source, time_node IS NULL AS is_sum, sum(transfers) AS transfers
    FROM sent
    GROUP BY ALL
)
SELECT
    sent.chain,
    sent.token_address,
    sent.timestamp,
    sent.address AS subject,
    CAST(sent.timestamp AS VARCHAR) AS occasion,
    CAST(max(counted.transfers) AS DOUBLE) AS measured,
    to_json({
        'label': any_value(sent.label),
        'rank': any_value(sent.rank),
        'rank_before': any_value(sent.rank_before),
        'share': any_value(sent.share),
        'share_before': any_value(sent.share_before),
        'previous_timestamp': any_value(sent.previous_timestamp),
        'sent': list(DISTINCT {
            'to': sent.to_address,
            'exchange': sent.exchange,
            'value': exact_amount(sent.total_value, sent.total_value_exact),
            'transfers': sent.total_transfers,
            'first_date': sent.first_date,
            'last_date': sent.last_date,
            'source': sent.source
        })[:20]
    }) AS evidence
FROM sent
JOIN counted USING (chain, token_address, timestamp, address)
GROUP BY sent.chain, sent.token_address, sent.timestamp, sent.address
HAVING measured >= $threshold
ORDER BY sent.timestamp, sent.chain, sent.token_address, subject;
