-- Wallets that probably have one owner, from the transfers of your store: as 'holderlake store entities' found them before the
-- last load. A wallet without a row was joined to no other one. Clusters are another thing: they follow the provider's
-- rule, on one map.
-- Example: SELECT entity, wallets, round(min(confidence), 2) AS confidence FROM entities GROUP BY ALL ORDER BY wallets DESC, entity LIMIT 3;
CREATE OR REPLACE VIEW entities AS
FROM _internal.stored_entities
WHERE as_of IS NOT DISTINCT FROM (SELECT max(as_of) FROM _internal.entity_searches);

-- The instants of the last 'holderlake store entities' (--at), with the least confidence and the number of entities. The
-- view entities is as of the last one.
-- Example: FROM entity_searches ORDER BY as_of;
CREATE OR REPLACE VIEW entity_searches AS
FROM _internal.entity_searches;

-- The instant of the search for entities that counts at t: the newest at or before t, or the first one if t is before it;
-- null without any search.
-- Example: SELECT entity_search_at('2026-06-01') AS searched;
CREATE OR REPLACE MACRO entity_search_at(t) AS
(SELECT coalesce(max(as_of) FILTER (as_of <= instant(t)), min(as_of)) FROM _internal.entity_searches);

-- The entities as of the newest searched instant at or before t, or of the first one if t is before it.
-- Example: SELECT as_of, entity, count(*) AS wallets FROM entities_as_of('2026-06-01') GROUP BY ALL ORDER BY wallets DESC, entity LIMIT 3;
CREATE OR REPLACE MACRO entities_as_of(t) AS TABLE
SELECT
    *,
    instant(t) AS requested,
    as_of_distance(t, as_of) AS days_earlier,
    as_of NOT BETWEEN instant(t) - as_of_warning() AND instant(t) AS is_outdated
FROM _internal.stored_entities
WHERE as_of IS NOT DISTINCT FROM entity_search_at(t);

-- The evidence behind entities: wallets with the same kind and link are linked to each other. The macro link_transfers
-- has the transfers behind a link.
-- Example: SELECT kind, count(DISTINCT link) AS links, count(DISTINCT address) AS wallets FROM cluster_links GROUP BY kind ORDER BY kind;
CREATE OR REPLACE VIEW cluster_links AS
FROM _internal.stored_links
WHERE as_of IS NOT DISTINCT FROM (SELECT max(as_of) FROM _internal.entity_searches);

-- The transfers behind the links of a wallet, of all tokens of your store. They are between the wallet and the address in
-- the column through of cluster_links, in the period of the link. A funder has those with all wallets that it funded.
-- Wallets that act in step have no such address, and no row.
-- Example: SELECT kind, block_time, symbol, from_address, amount FROM link_transfers('0x1111111111111111111111111111111111111111') ORDER BY ALL LIMIT 3;
CREATE OR REPLACE MACRO link_transfers(of_address) AS TABLE
WITH own AS (FROM cluster_links WHERE address = plain_address(of_address)),
links AS (
    FROM own
    UNION ALL
    SELECT others.*
    FROM cluster_links AS others
    JOIN own ON own.kind = others.kind AND own.link = others.link AND own.address = others.through
    WHERE own.through IS NULL
)
SELECT links.kind, links.link, links.confidence, transfers.*
FROM links
JOIN transfers
    ON transfers.block_time BETWEEN links.first_time AND links.last_time
    AND (
        (transfers.from_address = links.through AND transfers.to_address = links.address)
        OR (transfers.from_address = links.address AND transfers.to_address = links.through)
    );

-- Holders as of an instant, with wallets of one entity as one row. A wallet without an entity is a row of its own.
-- searched is the instant of the search for entities that is used (see entities_as_of). Before the first search
-- ('holderlake store entities') it is null, each wallet is a row, and the number of wallets of its owner is null.
-- Example: SELECT owner, wallets, round(share, 4) AS share FROM owners_as_of('2026-06-01') WHERE chain = 'eth' AND token_address = '0x2222222222222222222222222222222222222222' ORDER BY share DESC, owner LIMIT 3;
CREATE OR REPLACE MACRO owners_as_of(t) AS TABLE
SELECT
    holders.chain,
    holders.timestamp,
    holders.token_address,
    coalesce(entities.entity, holders.address) AS owner,
    CASE WHEN any_value(searches.searched) IS NOT NULL THEN count(*) END AS wallets,
    sum(holders.amount) AS amount,
    sum(holders.share) AS share,
    min(holders.rank) AS rank,
    searches.searched,
    holders.requested,
    holders.days_earlier,
    holders.is_outdated
FROM holders_as_of(t) AS holders
CROSS JOIN (SELECT entity_search_at(t) AS searched) AS searches
LEFT JOIN entities_as_of(t) AS entities ON entities.address = holders.address
GROUP BY ALL;

-- All holders of a token (its address or symbol) of your store at the end of the second t, with the wallets of one
-- entity as one row, the largest owner first; from complete balances (balances_at), so no list is needed. kind is that
-- of special_addresses_as_of, null for wallets. searched as in owners_as_of. A token that is not of your store is an error.
-- Example: SELECT owner, wallets, share FROM holders_by_owner((SELECT min(token_address) FROM stored_tokens), '2026-06-30') ORDER BY rank LIMIT 3;
CREATE OR REPLACE MACRO holders_by_owner(of_token, t) AS TABLE
WITH owners AS (
    SELECT
        held.chain,
        held.token_address,
        coalesce(entities.entity, held.address) AS owner,
        any_value(special.kind) FILTER (entities.entity IS NULL) AS kind,
        count(*) AS wallets,
        sum(CAST(held.raw_amount AS BIGNUM)) AS raw,
        sum(held.share) AS share
    FROM balances_at(of_token, t) AS held
    LEFT JOIN entities_as_of(t) AS entities ON entities.address = held.address
    LEFT JOIN special_addresses_as_of(t) AS special ON special.chain = held.chain AND special.address = held.address
    WHERE held.token_address = stored_token_of(of_token)
    GROUP BY ALL
)
SELECT
    owners.chain,
    owners.token_address,
    row_number() OVER (PARTITION BY owners.chain ORDER BY raw DESC, owner) AS rank,
    owner,
    kind,
    CASE WHEN searched IS NOT NULL THEN wallets END AS wallets,
    as_amount(exact_units(CAST(raw AS VARCHAR), decimals)) AS amount,
    as_exact(exact_units(CAST(raw AS VARCHAR), decimals)) AS amount_exact,
    CAST(raw AS VARCHAR) AS raw_amount,
    share,
    searched
FROM owners
LEFT JOIN stored_tokens AS stored ON stored.chain = owners.chain AND stored.token_address = owners.token_address
CROSS JOIN (SELECT entity_search_at(t) AS searched);

-- How concentrated a token of your store is at the end of the second t among all its holders but exchanges, pools and
-- other contracts. holders says who counts: 'wallets' one by one, 'certain owners' by joins of a confidence of 0.95 or more,
-- or 'owners' by all joins (see holders_by_owner). Missed joins make a row too low, and wrong ones, of which most are among
-- the owners, too high: so the three rows are the range in which the figures by owner lie. top_10_share
-- is a part of the supply; the other figures are parts of what these holders have together: gini_index,
-- herfindahl_hirschman_index (the sum of the squared parts), nakamoto_coefficient (fewest with half of it).
-- Example: SELECT holders, number, round(top_10_share, 3) AS top_10_share FROM concentration_by_owner((SELECT min(token_address) FROM stored_tokens), '2026-06-30') ORDER BY ALL;
CREATE OR REPLACE MACRO concentration_by_owner(of_token, t) AS TABLE
WITH held AS (
    SELECT
        held.chain,
        held.address,
        CAST(held.raw_amount AS DOUBLE) AS size,
        held.share,
        special.address IS NOT NULL AS is_special,
        entities.entity,
        entities.certain_entity
    FROM balances_at(of_token, t) AS held
    LEFT JOIN entities_as_of(t) AS entities ON entities.address = held.address
    LEFT JOIN special_addresses_as_of(t) AS special ON special.chain = held.chain AND special.address = held.address
    WHERE held.token_address = stored_token_of(of_token)
),
sizes AS (
    SELECT chain, 'wallets' AS holders, size, share FROM held WHERE NOT is_special
    UNION ALL
    SELECT chain, 'certain owners', sum(size), sum(share)
    FROM held
    WHERE entity_search_at(t) IS NOT NULL AND (certain_entity IS NOT NULL OR NOT is_special)
    GROUP BY chain, coalesce(certain_entity, address)
    UNION ALL
    SELECT chain, 'owners', sum(size), sum(share)
    FROM held
    WHERE entity_search_at(t) IS NOT NULL AND (entity IS NOT NULL OR NOT is_special)
    GROUP BY chain, coalesce(entity, address)
),
ranked AS (
    SELECT
        chain,
        holders,
        size,
        share,
        row_number() OVER from_largest AS place,
        sum(size) OVER (PARTITION BY chain, holders) AS total,
        total - sum(size) OVER from_largest + size AS so_far
    FROM sizes
    WINDOW from_largest AS (PARTITION BY chain, holders ORDER BY size DESC ROWS UNBOUNDED PRECEDING)
)
SELECT
    chain,
    holders,
    figures.number,
    top_10_share,
    figures.gini_index,
    figures.herfindahl_hirschman_index,
    figures.nakamoto_coefficient
FROM (
    SELECT
        chain,
        holders,
        sum(share) FILTER (place <= 10) AS top_10_share,
        concentration_of(size, place, so_far, total) AS figures
    FROM ranked
    GROUP BY chain, holders
);
