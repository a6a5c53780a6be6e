-- What the figures of a token (its address or symbol) are from, by chain: basis is 'all holders' where your store has its
-- transfers, or else 'lists of at most 500', for example, where only lists of its largest holders were fetched.
-- Example: SELECT chain, basis FROM basis_of((SELECT min(token_address) FROM stored_tokens));
CREATE OR REPLACE MACRO basis_of(of_token) AS TABLE
WITH token AS MATERIALIZED (
    SELECT token_of(of_token) AS address
)
SELECT chain, token_address, 'all holders' AS basis
FROM stored_tokens
WHERE token_address = (SELECT address FROM token)
UNION ALL
SELECT listed.chain, listed.token_address, 'lists of at most ' || coalesce(max(holder_limit), 80)
FROM (
    SELECT chain, token_address, holder_limit FROM holders
    UNION ALL
    SELECT chain, token_address, holder_limit FROM maps
) AS listed
ANTI JOIN stored_tokens AS stored ON stored.chain = listed.chain AND stored.token_address = listed.token_address
WHERE listed.token_address = (SELECT address FROM token)
GROUP BY ALL;

-- Each time between two transfers of an address in which it holds a token (its address or symbol) of your store, from
-- your own transfers, opening balances and corrections as of the last load. Transfers of nothing and to itself do not
-- count. since and until are unix seconds: since is the first second, until the first one that no longer counts,
-- 4611686018427387904 while it lasts. raw is the raw amount as a number for figures; raw_amount is exact. Of a token that
-- your store lacks, the holders of each list count until the next list: raw is their share, raw_amount null. A token
-- without transfers and lists is an error.
-- Example: SELECT address, to_timestamp(since) AS since, raw_amount FROM balance_periods((SELECT min(token_address) FROM stored_tokens)) ORDER BY ALL LIMIT 3;
CREATE OR REPLACE MACRO balance_periods(of_token) AS TABLE
WITH token AS MATERIALIZED (
    SELECT
        CASE
            WHEN count(*) > 0 THEN any_value(token_address)
            ELSE error('no holder of ' || trim(of_token) || ' is known: your store has no transfers of it, and no list was fetched')
        END AS address,
        list(chain) FILTER (basis <> 'all holders') AS listed_on
    FROM basis_of(of_token)
),
intervals AS NOT MATERIALIZED (
    FROM _internal.balance_files
    WHERE token_address = (SELECT address FROM token) AND address <> '0x0000000000000000000000000000000000000000'
),
shared AS MATERIALIZED (
    SELECT DISTINCT chain, address FROM intervals WHERE NOT is_base
),
-- is_shared is true for addresses with balances in several parts, whose sums count; coalesce, because DuckDB would make a
-- join of the bare condition, with all intervals in its hash table
marked AS NOT MATERIALIZED (
    SELECT *, coalesce((chain, address) IN (FROM shared), false) AS is_shared
    FROM intervals
),
steps AS (
    SELECT chain, token_address, address, second, sum(change) AS change
    FROM (
        SELECT
            chain,
            token_address,
            address,
            unnest([since, until]) AS second,
            unnest([raw_balance(balance, wide_balance), -raw_balance(balance, wide_balance)]) AS change
        FROM marked
        WHERE is_shared
    )
    WHERE second < 4611686018427387904
    GROUP BY ALL
),
summed AS (
    SELECT
        chain,
        token_address,
        address,
        second AS since,
        coalesce(lead(second) OVER series, 4611686018427387904) AS until,
        CAST(sum(change) OVER series AS VARCHAR) AS balance
    FROM steps
    WINDOW series AS (PARTITION BY chain, token_address, address ORDER BY second)
)
SELECT
    chain,
    token_address,
    address,
    since,
    until,
    coalesce(CAST(balance AS DOUBLE), CAST(wide_balance AS DOUBLE)) AS raw,
    coalesce(wide_balance, CAST(balance AS VARCHAR)) AS raw_amount
FROM marked
WHERE NOT is_shared AND coalesce(balance > 0, NOT starts_with(wide_balance, '-'))
UNION ALL
SELECT chain, token_address, address, since, until, CAST(balance AS DOUBLE), balance
FROM summed
WHERE balance <> '0' AND NOT starts_with(balance, '-')
UNION ALL
SELECT
    chain,
    token_address,
    address,
    CAST(epoch(timestamp) AS BIGINT),
    coalesce(CAST(epoch(next_timestamp) AS BIGINT), 4611686018427387904),
    share,
    NULL
FROM listed_holders
JOIN list_instants USING (chain, token_address, timestamp)
WHERE token_address = (SELECT address FROM token WHERE listed_on IS NOT NULL)
    AND list_contains((SELECT listed_on FROM token), chain)
    AND share > 0;

-- The periods (each: day, week, month, quarter or year) from that of first_day to that of last_day. period is the first
-- day, day the last one (last_day at most). first_second and last_second are their unix seconds in the zone.
-- Example: FROM periods('month', '2026-05-20', '2026-07-10') ORDER BY period;
CREATE OR REPLACE MACRO periods(each, first_day, last_day, zone := 'UTC') AS TABLE
WITH bounds AS (
    SELECT
        date_trunc('day', start_of_period(first_day)) AS begun,
        date_trunc('day', end_of_period(first_day, last_day)) AS ended,
        CASE
            WHEN lower(each) IN ('day', 'week', 'month', 'quarter', 'year') THEN CAST('1 ' || each AS INTERVAL)
            ELSE error('''' || each || ''' is no kind of period here: write day, week, month, quarter or year')
        END AS step
),
starts AS (
    SELECT unnest(generate_series(date_trunc(each, begun), ended, step)) AS start, ended, step
    FROM bounds
)
SELECT
    CAST(start AS DATE) AS period,
    CAST(least(start + step - INTERVAL 1 DAY, ended) AS DATE) AS day,
    CAST(epoch(timezone(zone, start)) AS BIGINT) AS first_second,
    CAST(epoch(timezone(zone, least(start + step, ended + INTERVAL 1 DAY))) AS BIGINT) - 1 AS last_second
FROM starts;

-- The holders of a token (its address or symbol) at the end of each period (see periods), as balance_periods knows them,
-- with the unix second of the last transfer of each, or of the list that counts. is_special is true for exchanges,
-- contracts and addresses without an owner at that time (special_periods). After the last transfer (see stored_tokens) or
-- list the amounts stay unchanged.
-- Example: SELECT day, count(*) AS holders FROM holders_by_period((SELECT min(token_address) FROM stored_tokens), 'month', '2026-01-01', '2026-06-30') GROUP BY day ORDER BY day;
CREATE OR REPLACE MACRO holders_by_period(of_token, each, first_day, last_day, zone := 'UTC') AS TABLE
WITH ends AS MATERIALIZED (
    FROM periods(each, first_day, last_day, zone := zone)
),
special AS MATERIALIZED (
    SELECT
        chain,
        address,
        coalesce(epoch(valid_from), -4611686018427387904) AS valid_from,
        coalesce(epoch(valid_to), 4611686018427387904) AS valid_to
    FROM special_periods
)
SELECT
    ends.period,
    ends.day,
    ends.last_second,
    held.chain,
    held.token_address,
    held.address,
    held.raw,
    held.raw_amount,
    held.since,
    special.address IS NOT NULL AS is_special
FROM (
    FROM balance_periods(of_token)
    WHERE since <= (SELECT max(last_second) FROM ends) AND until > (SELECT min(last_second) FROM ends)
) AS held
JOIN ends ON held.since <= ends.last_second AND held.until > ends.last_second
LEFT JOIN special
    ON special.chain = held.chain
    AND special.address = held.address
    AND ends.last_second BETWEEN special.valid_from AND special.valid_to;

-- The supply of a token (its address or symbol) at the end of each period: minted less burnt in your store (no row while
-- that is nothing), or 1 where lists are the basis (basis_of), because balance_periods then counts shares. raw is a number
-- for figures; raw_amount is exact, null for lists.
-- Example: SELECT day, raw_amount FROM supply_by_period((SELECT min(token_address) FROM stored_tokens), 'month', '2026-01-01', '2026-06-30') ORDER BY ALL;
CREATE OR REPLACE MACRO supply_by_period(of_token, each, first_day, last_day, zone := 'UTC') AS TABLE
WITH known AS MATERIALIZED (
    FROM basis_of(of_token)
)
SELECT
    ends.period, ends.day, chain, token_address,
    CAST(-sum(raw_balance(balance, wide_balance)) AS DOUBLE) AS raw,
    CAST(-sum(raw_balance(balance, wide_balance)) AS VARCHAR) AS raw_amount
FROM _internal.balance_files
JOIN periods(each, first_day, last_day, zone := zone) AS ends ON since <= ends.last_second AND until > ends.last_second
WHERE token_address = (SELECT any_value(token_address) FROM known)
    AND address = '0x0000000000000000000000000000000000000000'
GROUP BY ALL
UNION ALL
SELECT period, day, chain, token_address, 1, NULL
FROM known
CROSS JOIN periods(each, first_day, last_day, zone := zone)
WHERE basis <> 'all holders';

-- The figures of concentration of holders: an aggregate over the size of each, its rank (1 is the largest), the sum of the
-- sizes up to its own from the smallest, and their total. A null size does not count. gini_index is the Gini coefficient,
-- herfindahl_hirschman_index the sum of the squared parts, nakamoto_coefficient the fewest that have half of the total.
-- Example: SELECT unnest(concentration_of(size, rank, so_far, 4)) FROM (VALUES (3, 1, 4), (1, 2, 1)) AS sizes(size, rank, so_far);
CREATE OR REPLACE MACRO concentration_of(size, rank, so_far, total) AS struct_pack(
    number := count(size),
    top_1 := sum(CASE WHEN rank <= 1 THEN size END),
    top_10 := sum(CASE WHEN rank <= 10 THEN size END),
    top_100 := sum(CASE WHEN rank <= 100 THEN size END),
    gini_index := (count(size) + 1 - 2 * sum(rank * size) / sum(size)) / count(size),
    herfindahl_hirschman_index := sum(power(size / total, 2)),
    nakamoto_coefficient := count(CASE WHEN total - so_far < total / 2 THEN size END)
);

-- How concentrated a token (its address or symbol) is at the end of each period (see periods). basis says whether all of
-- its holders count, or only lists of the largest (basis_of). holders says who of them: 'all holders', or 'wallets',
-- without exchanges, contracts and addresses without an owner (special_periods). top_1_share to top_100_share are parts of
-- the supply, minted less burnt, null if the lists are shorter. They pass 1 where transfers are missing: wallets below zero
-- ('holderlake store negative-balances') lower the supply, and are no holders. The other figures are parts of what these
-- holders have together: gini_index,
-- herfindahl_hirschman_index (the sum of the squared parts), nakamoto_coefficient (fewest with half of it). A period
-- without holders has no row.
-- Example: SELECT day, holders, number, round(top_10_share, 3) AS top_10_share FROM concentration_by_period((SELECT min(token_address) FROM stored_tokens), 'month', '2026-01-01', '2026-06-30') ORDER BY ALL;
CREATE OR REPLACE MACRO concentration_by_period(of_token, each, first_day, last_day, zone := 'UTC') AS TABLE
-- Amounts of one size (an eighth of a power of two) are one sorted list: windows over all holders would take three times
-- the time.
WITH lists AS MATERIALIZED (
    SELECT
        last_second,
        chain,
        CAST(floor(8 * log2(raw)) AS INTEGER) AS size,
        list_sort(list(raw) FILTER (NOT is_special)) AS wallets,
        list(raw) FILTER (is_special) AS specials
    FROM holders_by_period(of_token, each, first_day, last_day, zone := zone)
    GROUP BY ALL
),
-- most sizes have no special address, so that their list is that of wallets and of all holders
amounts AS NOT MATERIALIZED (
    SELECT last_second, chain, size, wallets AS amounts, true AS of_wallets, specials IS NULL AS of_all
    FROM lists
    WHERE wallets IS NOT NULL
    UNION ALL
    SELECT last_second, chain, size, list_sort(list_concat(wallets, specials)), false, true
    FROM lists
    WHERE specials IS NOT NULL
),
measured AS MATERIALIZED (
    SELECT
        * EXCLUDE (amounts),
        len(amounts) AS number,
        list_sum(amounts) AS amount,
        list_sum(list_transform(amounts, lambda raw, place: raw * place)) AS placed,
        list_sum(list_transform(amounts, lambda raw: raw * raw)) AS squares
    FROM amounts
),
sizes AS MATERIALIZED (
    SELECT
        *,
        sum(number) OVER from_least - number AS smaller,
        sum(number) OVER of_all - sum(number) OVER from_least AS larger,
        sum(amount) OVER of_all - sum(amount) OVER from_least AS larger_amount,
        sum(amount) OVER of_all AS total
    FROM (
        SELECT 'wallets' AS holders, * EXCLUDE (of_wallets, of_all) FROM measured WHERE of_wallets
        UNION ALL
        SELECT 'all holders', * EXCLUDE (of_wallets, of_all) FROM measured WHERE of_all
    )
    WINDOW
        from_least AS (PARTITION BY last_second, chain, holders ORDER BY size),
        of_all AS (PARTITION BY last_second, chain, holders)
),
-- the amounts of the sizes of the hundred largest, and of the size in which the largest have half of the total
ranked AS (
    SELECT
        last_second,
        chain,
        holders,
        total,
        raw,
        larger + row_number() OVER from_largest AS rank,
        larger_amount + sum(raw) OVER from_largest - raw AS larger_amount
    FROM (
        SELECT sizes.*, unnest(amounts) AS raw
        FROM amounts
        JOIN (
            FROM sizes
            WHERE larger < 100 OR (larger_amount < total / 2 AND larger_amount + amount >= total / 2)
        ) AS sizes
            ON sizes.last_second = amounts.last_second
            AND sizes.chain = amounts.chain
            AND sizes.size = amounts.size
            AND CASE holders WHEN 'wallets' THEN of_wallets ELSE of_all END
    )
    WINDOW from_largest AS (
        PARTITION BY last_second, chain, holders, size ORDER BY raw DESC ROWS UNBOUNDED PRECEDING
    )
),
largest AS (
    SELECT
        last_second,
        chain,
        holders,
        sum(raw) FILTER (rank = 1) AS top_1,
        sum(raw) FILTER (rank <= 10) AS top_10,
        sum(raw) FILTER (rank <= 100) AS top_100,
        max(rank) FILTER (larger_amount < total / 2) AS half
    FROM ranked
    GROUP BY ALL
),
figures AS (
    SELECT
        last_second,
        chain,
        holders,
        CAST(sum(number) AS BIGINT) AS number,
        2 * sum(smaller * amount + placed) / (sum(number) * sum(amount)) - (sum(number) + 1) / sum(number) AS gini_index,
        sum(squares) / power(sum(amount), 2) AS herfindahl_hirschman_index
    FROM sizes
    GROUP BY ALL
)
SELECT
    ends.period,
    ends.day,
    figures.chain,
    known.token_address,
    figures.holders,
    figures.number,
    top_1 / supply.raw AS top_1_share,
    CASE WHEN basis = 'all holders' OR number >= 10 THEN top_10 / supply.raw END AS top_10_share,
    CASE WHEN basis = 'all holders' OR number >= 100 THEN top_100 / supply.raw END AS top_100_share,
    gini_index,
    herfindahl_hirschman_index,
    CAST(half AS BIGINT) AS nakamoto_coefficient,
    basis
FROM figures
JOIN largest USING (last_second, chain, holders)
JOIN periods(each, first_day, last_day, zone := zone) AS ends USING (last_second)
JOIN basis_of(of_token) AS known ON known.chain = figures.chain
LEFT JOIN (FROM supply_by_period(of_token, each, first_day, last_day, zone := zone) WHERE raw > 0) AS supply
    ON supply.period = ends.period AND supply.chain = figures.chain;

-- How long the supply of a token (its address or symbol) of your store has not moved, at the end of each period (see
-- periods), or its dormant holders: number and share have the holders without a transfer for at_least_days days, and their
-- part of the supply, which passes 1 where transfers are missing (see concentration_by_period). holders_by_period lists
-- them. A token that is not of your store is an error, because lists do not show transfers.
-- Every transfer counts, also a small one that they receive unasked. holders as in concentration_by_period. days has the
-- ages to count.
-- Example: SELECT day, at_least_days, number, round(share, 3) AS share FROM supply_age((SELECT min(token_address) FROM stored_tokens), 'month', '2026-05-01', '2026-06-30') WHERE holders = 'wallets' ORDER BY ALL;
CREATE OR REPLACE MACRO supply_age(of_token, each, first_day, last_day, days := [0, 1, 7, 30, 90, 180, 365], zone := 'UTC') AS TABLE
WITH by_age AS MATERIALIZED (
    SELECT
        period, day, chain, token_address, is_special, (last_second - since) // 86400 AS age,
        count(*) AS number, sum(raw) AS raw
    FROM holders_by_period(of_token, each, first_day, last_day, zone := zone)
    WHERE token_address = stored_token_of(of_token)
    GROUP BY ALL
),
counted AS (
    SELECT 'all holders' AS holders, * FROM by_age
    UNION ALL
    SELECT 'wallets', * FROM by_age WHERE NOT is_special
)
SELECT
    counted.period,
    counted.day,
    counted.chain,
    counted.token_address,
    holders,
    at_least_days,
    CAST(coalesce(sum(number) FILTER (age >= at_least_days), 0) AS BIGINT) AS number,
    coalesce(sum(counted.raw) FILTER (age >= at_least_days), 0) / any_value(supply.raw) AS share
FROM counted
CROSS JOIN (SELECT unnest(days) AS at_least_days)
LEFT JOIN (FROM supply_by_period(of_token, each, first_day, last_day, zone := zone) WHERE raw > 0) AS supply
    ON supply.period = counted.period AND supply.chain = counted.chain
GROUP BY counted.period, counted.day, counted.chain, counted.token_address, holders, at_least_days;

-- How many holders of a token (its address or symbol) stay: cohort is the period (see periods) in which an address first
-- held it, number its addresses, and remaining those that hold at the end of a later period, or of the same one. Who left
-- and came back is among them. A cohort without addresses has no row. holders is 'all holders', or 'wallets', without
-- those that are special on last_day (special_addresses_as_of). basis says whether all holders of your store count, or only
-- lists of the largest (basis_of).
-- Example: SELECT cohort, day, number, remaining FROM retention((SELECT min(token_address) FROM stored_tokens), 'month', '2026-04-01', '2026-06-30') WHERE holders = 'wallets' ORDER BY ALL;
CREATE OR REPLACE MACRO retention(of_token, each, first_day, last_day, zone := 'UTC') AS TABLE
WITH ends AS MATERIALIZED (
    FROM periods(each, first_day, last_day, zone := zone)
),
members AS MATERIALIZED (
    SELECT begun.*, ends.period AS cohort, special.address IS NOT NULL AS is_special
    FROM (
        SELECT chain, token_address, address, min(since) AS since
        FROM balance_periods(of_token)
        GROUP BY ALL
    ) AS begun
    JOIN ends ON begun.since BETWEEN ends.first_second AND ends.last_second
    LEFT JOIN special_addresses_as_of(last_day) AS special
        ON special.chain = begun.chain AND special.address = begun.address
),
sizes AS (
    SELECT chain, token_address, cohort, is_special, count(*) AS number
    FROM members
    GROUP BY ALL
),
kept AS (
    SELECT members.chain, members.cohort, members.is_special, held.period, count(*) AS remaining
    FROM holders_by_period(of_token, each, first_day, last_day, zone := zone) AS held
    JOIN members ON members.chain = held.chain AND members.address = held.address
    GROUP BY ALL
),
counted AS (
    SELECT sizes.*, ends.period, ends.day, coalesce(remaining, 0) AS remaining
    FROM sizes
    JOIN ends ON ends.period >= sizes.cohort
    LEFT JOIN kept
        ON kept.chain = sizes.chain
        AND kept.cohort = sizes.cohort
        AND kept.is_special = sizes.is_special
        AND kept.period = ends.period
)
SELECT
    chain,
    token_address,
    holders,
    cohort,
    period,
    day,
    CAST(sum(number) AS BIGINT) AS number,
    CAST(sum(remaining) AS BIGINT) AS remaining,
    sum(remaining) / sum(number) AS retention,
    basis
FROM (
    SELECT 'all holders' AS holders, * FROM counted
    UNION ALL
    SELECT 'wallets', * FROM counted WHERE NOT is_special
)
JOIN basis_of(of_token) USING (chain, token_address)
GROUP BY ALL;

-- Each time in which an address held a token (its address or symbol) without a gap, in any amount. held_until is the second
-- in which it had nothing left, null if it still holds; days then counts to the token's last stored transfer. basis says
-- whether all holders of your store count, or only lists of the largest (basis_of): then the times are those of lists.
-- Leave out exchanges and contracts with ANTI JOIN special_addresses USING (chain, address).
-- Example: SELECT median(days) AS days FROM holding_times((SELECT min(token_address) FROM stored_tokens));
CREATE OR REPLACE MACRO holding_times(of_token) AS TABLE
WITH marked AS (
    SELECT
        chain, token_address, address, since, until,
        coalesce(since <> lag(until) OVER (PARTITION BY chain, address ORDER BY since), true) AS begins
    FROM balance_periods(of_token)
),
numbered AS (
    SELECT *, CAST(sum(CAST(begins AS INTEGER)) OVER (PARTITION BY chain, address ORDER BY since) AS BIGINT) AS place
    FROM marked
),
held AS (
    SELECT
        chain, token_address, address, place,
        min(since) AS since,
        nullif(max(until), 4611686018427387904) AS until,
        max(since) AS last_since
    FROM numbered
    GROUP BY ALL
)
SELECT
    held.chain,
    held.token_address,
    held.address,
    place,
    make_timestamp(since * 1000000) AS held_from,
    make_timestamp(until * 1000000) AS held_until,
    greatest(coalesce(until, CAST(epoch(last_transfer) AS BIGINT), last_since) - since, 0) / 86400 AS days,
    basis
FROM held
JOIN basis_of(of_token) AS known ON known.chain = held.chain
LEFT JOIN stored_tokens AS stored ON stored.chain = held.chain AND stored.token_address = held.token_address;

-- What each address received, sent and kept of a token (its address or symbol) of your store in a period: the sums of its
-- transfers from first_day to last_day, both included, or between two instants. Addresses below zero are there too, in
-- contrast to balances_at. kind is that of special_addresses_as_of(last_day), null for wallets; the addresses without an
-- owner (burn) have the mints and burns, so that net adds up to 0. A token that is not of your store is an error.
-- Example: SELECT address, kind, net FROM net_flows((SELECT min(token_address) FROM stored_tokens), '2026-06-01', '2026-06-30') ORDER BY net DESC, address LIMIT 3;
CREATE OR REPLACE MACRO net_flows(of_token, first_day, last_day) AS TABLE
WITH token AS MATERIALIZED (
    SELECT
        stored_token_of(of_token) AS address,
        start_of_period(first_day) AS begun,
        end_of_period(first_day, last_day) AS ended
),
moved AS NOT MATERIALIZED (
    SELECT chain, token_address, from_address, to_address, CAST(value AS BIGNUM) AS raw
    FROM _internal.transfer_files
    WHERE token_address = (SELECT address FROM token)
        AND block_time BETWEEN (SELECT begun FROM token) AND (SELECT ended FROM token)
),
sides AS (
    SELECT chain, token_address, to_address AS address, raw AS received, 0::BIGNUM AS sent, 1 AS is_receipt FROM moved
    UNION ALL
    SELECT chain, token_address, from_address, 0::BIGNUM, raw, 0 FROM moved
),
summed AS (
    SELECT
        chain,
        token_address,
        address,
        CAST(sum(is_receipt) AS BIGINT) AS receipts,
        count(*) - CAST(sum(is_receipt) AS BIGINT) AS payments,
        sum(received) AS received,
        sum(sent) AS sent
    FROM sides
    GROUP BY ALL
)
SELECT
    summed.chain,
    summed.token_address,
    summed.address,
    special.kind,
    receipts,
    payments,
    as_amount(exact_units(CAST(received AS VARCHAR), decimals)) AS received,
    as_exact(exact_units(CAST(received AS VARCHAR), decimals)) AS received_exact,
    as_amount(exact_units(CAST(sent AS VARCHAR), decimals)) AS sent,
    as_exact(exact_units(CAST(sent AS VARCHAR), decimals)) AS sent_exact,
    as_amount(exact_units(CAST(received - sent AS VARCHAR), decimals)) AS net,
    as_exact(exact_units(CAST(received - sent AS VARCHAR), decimals)) AS net_exact,
    CAST(received - sent AS VARCHAR) AS raw_net
FROM summed
JOIN stored_tokens AS stored ON stored.chain = summed.chain AND stored.token_address = summed.token_address
LEFT JOIN special_addresses_as_of(last_day) AS special
    ON special.chain = summed.chain AND special.address = summed.address;

-- Who sent each address its first coin, and its first token, on each chain: the first transfer of your store to it of more
-- than nothing, from another address. asset is coin (the token native) or token: the first of any token of the chain, not
-- of each. Of several in one block the one with the least log index counts; if the source gives them the same, the one of
-- the least token address, then funder, transaction and amount. A mint has the zero address as funder. Addresses without an
-- owner (is_burn) have no row.
-- kind is that of the funder in special_periods at the time, null for a wallet. Whom a wallet funded: WHERE funder = '0x…'.
-- Example: SELECT asset, funder, symbol, block_time FROM wallet_funding WHERE address = '0x1111111111111111111111111111111111111111' ORDER BY ALL;
CREATE OR REPLACE VIEW wallet_funding AS
WITH first AS (
    SELECT
        chain,
        to_address AS address,
        CASE token_address WHEN 'native' THEN 'coin' ELSE 'token' END AS asset,
        arg_min(
            struct_pack(
                funder := from_address, token_address := token_address, block_time := block_time, tx_hash := tx_hash,
                raw_amount := value
            ),
            (block_time, block_number, log_index, token_address, from_address, tx_hash, CAST(value AS BIGNUM))
        ) AS transfer
    FROM _internal.transfer_files
    WHERE from_address <> to_address AND value <> '0' AND NOT is_burn(to_address)
    GROUP BY ALL
)
SELECT
    first.chain,
    first.address,
    first.asset,
    transfer.funder,
    special.kind,
    transfer.token_address,
    stored.symbol,
    transfer.block_time,
    transfer.tx_hash,
    as_amount(exact_units(transfer.raw_amount, decimals)) AS amount,
    as_exact(exact_units(transfer.raw_amount, decimals)) AS amount_exact
FROM first
LEFT JOIN stored_tokens AS stored ON stored.chain = first.chain AND stored.token_address = transfer.token_address
LEFT JOIN special_periods AS special
    ON special.chain = first.chain
    AND special.address = transfer.funder
    AND transfer.block_time >= coalesce(special.valid_from, '-infinity'::TIMESTAMP)
    AND transfer.block_time < coalesce(special.valid_to + INTERVAL 1 SECOND, 'infinity'::TIMESTAMP);

-- The funders of an address up to three hops back, from wallet_funding: hop 1 has who sent it its first coin and its first
-- token, hop 2 who funded these wallets, hop 3 whose funders. An exchange, contract or mint has no further hop.
-- Example: SELECT hop, asset, address, funder, kind FROM funding_of('0x1111111111111111111111111111111111111111') ORDER BY ALL;
CREATE OR REPLACE MACRO funding_of(of_address) AS TABLE
WITH funding AS MATERIALIZED (FROM wallet_funding),
one AS (SELECT 1 AS hop, * FROM funding WHERE address = plain_address(of_address)),
two AS (
    SELECT 2 AS hop, funding.*
    FROM funding
    SEMI JOIN (FROM one WHERE kind IS NULL) AS later ON later.chain = funding.chain AND later.funder = funding.address
),
three AS (
    SELECT 3 AS hop, funding.*
    FROM funding
    SEMI JOIN (FROM two WHERE kind IS NULL) AS later ON later.chain = funding.chain AND later.funder = funding.address
)
FROM one
UNION ALL
FROM two
UNION ALL
FROM three;
