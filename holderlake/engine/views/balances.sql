-- The holders of a token (its address or symbol) at the end of the second t, on every chain that has it. basis is 'all
-- holders' where your store has its transfers, from these, opening balances and corrections as of the last load: nothing
-- is left out but addresses below zero, whose transfers are incomplete, so that any other address without a row holds
-- nothing. After the last transfer (see stored_tokens) the balances stay unchanged. Where your store lacks the token, basis
-- is 'list of at most 500', for example: the newest list at or before t, without raw_amount. share is the part of minted
-- less burnt tokens.
-- Example: SELECT address, amount, share FROM balances_at((SELECT min(token_address) FROM stored_tokens), '2026-06-30') ORDER BY share DESC, address LIMIT 3;
CREATE OR REPLACE MACRO balances_at(of_token, t) AS TABLE
WITH token AS MATERIALIZED (
    SELECT token_of(of_token) AS address
),
intervals AS NOT MATERIALIZED (
    FROM _internal.balance_files
    WHERE token_address = (SELECT address FROM token) AND since <= unix_second(t) AND until > unix_second(t)
),
later_parts AS (
    SELECT chain, token_address, address, sum(balance) AS balance, sum(CAST(wide_balance AS BIGNUM)) AS wide_sum
    FROM intervals
    WHERE NOT is_base
    GROUP BY ALL
),
-- the large part has each address once, so only the other parts are grouped
held AS NOT MATERIALIZED (
    SELECT
        chain,
        token_address,
        address,
        coalesce(base.balance, 0) + coalesce(later_parts.balance, 0) AS narrow,
        CASE
            WHEN base.wide_balance IS NOT NULL OR later_parts.wide_sum IS NOT NULL
            THEN coalesce(CAST(base.wide_balance AS BIGNUM), 0::BIGNUM) + coalesce(later_parts.wide_sum, 0::BIGNUM)
                + CAST(CAST(coalesce(base.balance, 0) + coalesce(later_parts.balance, 0) AS VARCHAR) AS BIGNUM)
        END AS wide,
        coalesce(CAST(wide AS DOUBLE), CAST(narrow AS DOUBLE)) AS high,
        CASE
            WHEN wide IS NULL THEN CAST(CAST(narrow AS HUGEINT) - CAST(high AS HUGEINT) AS DOUBLE)
            ELSE CAST(wide + -CAST(high AS BIGNUM) AS DOUBLE)
        END AS low
    FROM (FROM intervals WHERE is_base) AS base
    FULL JOIN later_parts USING (chain, token_address, address)
),
stored AS MATERIALIZED (
    SELECT
        stored.chain,
        decimals,
        -- units of up to 18 decimals fit into the decimal column if there are at most 20 digits before the point
        CASE WHEN decimals <= 18 THEN CAST('1e-' || decimals AS DECIMAL(38, 18)) END AS unit,
        CASE WHEN decimals <= 18 THEN CAST('1e' || least(20 + decimals, 37) AS DECIMAL(38, 0)) ELSE 0 END AS too_large,
        -high AS supply,
        -low AS supply_low,
        supply * 134217729 - (supply * 134217729 - supply) AS supply_top
    FROM stored_tokens AS stored
    LEFT JOIN held ON held.chain = stored.chain AND held.address = '0x0000000000000000000000000000000000000000'
    WHERE stored.token_address = (SELECT address FROM token)
),
-- A share is the quotient of exact numbers, rounded once, as in holders. The quotient of DOUBLEs is up to two roundings off;
-- the remainder that corrects it is exact, because factors are split into halves of 26 bits (top and the rest).
shares AS NOT MATERIALIZED (
    SELECT
        held.*,
        decimals,
        unit,
        too_large,
        high / supply AS quotient,
        quotient * 134217729 - (quotient * 134217729 - quotient) AS top,
        quotient * supply AS product,
        top * supply_top - product + top * (supply - supply_top) + (quotient - top) * supply_top
            + (quotient - top) * (supply - supply_top) AS product_error,
        high - product - product_error + low - quotient * supply_low AS remainder,
        CASE WHEN supply > 0 THEN least(1, quotient + remainder / supply) END AS share
    FROM held
    JOIN stored ON stored.chain = held.chain
)
SELECT
    chain,
    token_address,
    address,
    CASE
        WHEN wide IS NULL AND narrow < too_large THEN narrow * unit
        ELSE as_amount(exact_units(coalesce(CAST(wide AS VARCHAR), CAST(narrow AS VARCHAR)), decimals))
    END AS amount,
    CASE
        WHEN wide IS NOT NULL OR narrow >= too_large
        THEN as_exact(exact_units(coalesce(CAST(wide AS VARCHAR), CAST(narrow AS VARCHAR)), decimals))
    END AS amount_exact,
    coalesce(CAST(wide AS VARCHAR), CAST(narrow AS VARCHAR)) AS raw_amount,
    share,
    'all holders' AS basis
FROM shares
WHERE address <> '0x0000000000000000000000000000000000000000'
    AND CASE WHEN wide IS NULL THEN narrow > 0 ELSE wide > 0::BIGNUM END
UNION ALL
SELECT
    chain, token_address, address, amount, amount_exact, NULL, share,
    'list of at most ' || coalesce(holder_limit, 80)
FROM listed_holders
JOIN list_instants USING (chain, token_address, timestamp)
ANTI JOIN stored_tokens USING (chain, token_address)
WHERE token_address = (SELECT address FROM token)
    AND timestamp <= instant(t)
    AND coalesce(next_timestamp > instant(t), true);

-- Every change of an address's balance of a token (its address or symbol) of your store, with the balance after it: one
-- row for each second with a change, from your own transfers, opening balances and corrections as of the last load. A token
-- that is not of your store is an error.
-- Example: FROM balance_history('0x1111111111111111111111111111111111111111', (SELECT min(token_address) FROM stored_tokens)) ORDER BY block_time;
CREATE OR REPLACE MACRO balance_history(of_address, of_token) AS TABLE
WITH token AS MATERIALIZED (
    SELECT stored_token_of(of_token) AS address
),
intervals AS NOT MATERIALIZED (
    FROM _internal.balance_files
    WHERE token_address = (SELECT address FROM token) AND address = (SELECT plain_address(of_address))
),
steps AS (
    SELECT chain, token_address, since AS second, raw_balance(balance, wide_balance) AS change
    FROM intervals
    UNION ALL
    SELECT chain, token_address, until, -raw_balance(balance, wide_balance)
    FROM intervals
    WHERE until < 4611686018427387904
),
changes AS (
    SELECT chain, token_address, make_timestamp(second * 1000000) AS block_time, sum(change) AS change
    FROM steps
    GROUP BY ALL
),
running AS (
    SELECT
        *,
        sum(change) OVER (PARTITION BY chain, token_address ORDER BY block_time) AS balance
    FROM changes
    WHERE change <> 0::BIGNUM
)
SELECT
    running.chain,
    running.token_address,
    plain_address(of_address) AS address,
    block_time,
    as_amount(exact_units(CAST(change AS VARCHAR), decimals)) AS amount_change,
    as_exact(exact_units(CAST(change AS VARCHAR), decimals)) AS amount_change_exact,
    as_amount(exact_units(CAST(balance AS VARCHAR), decimals)) AS amount,
    as_exact(exact_units(CAST(balance AS VARCHAR), decimals)) AS amount_exact,
    CAST(balance AS VARCHAR) AS raw_amount
FROM running
LEFT JOIN stored_tokens AS stored ON stored.chain = running.chain AND stored.token_address = running.token_address;

-- A raw balance of the store's files, from its two columns.
-- Example: SELECT raw_balance(12, NULL) AS narrow, raw_balance(NULL, '12') AS wide;
CREATE OR REPLACE MACRO raw_balance(balance, wide_balance) AS
CAST(coalesce(wide_balance, CAST(balance AS VARCHAR)) AS BIGNUM);

-- The number of holders of a token (its address or symbol) of your store at the end of each day on which it changed,
-- and the change since the row before, from your own transfers, opening balances and corrections as of the last load.
-- Days are those of the zone. A token that is not of your store is an error.
-- Example: FROM holder_counts((SELECT min(token_address) FROM stored_tokens)) ORDER BY chain, day DESC LIMIT 3;
CREATE OR REPLACE MACRO holder_counts(of_token, zone := 'UTC') AS TABLE
WITH steps AS (
    SELECT chain, token_address, unnest([since, until]) AS second, unnest([1, -1]) AS step
    FROM balance_periods(of_token)
    WHERE token_address = stored_token_of(of_token)
),
by_day AS (
    SELECT
        chain,
        token_address,
        CASE
            WHEN zone = 'UTC' THEN CAST(make_timestamp(second // 86400 * 86400000000) AS DATE)
            ELSE CAST(timezone(zone, to_timestamp(second)) AS DATE)
        END AS day,
        CAST(sum(step) AS BIGINT) AS holders_change
    FROM steps
    WHERE second < 4611686018427387904
    GROUP BY ALL
)
SELECT
    chain,
    token_address,
    day,
    CAST(sum(holders_change) OVER (PARTITION BY chain, token_address ORDER BY day) AS BIGINT) AS holders,
    holders_change
FROM by_day
WHERE holders_change <> 0;

-- The number of holders of a token (its address or symbol) of your store at the end of every day from first_day to
-- last_day, in the zone. holder_counts has the days with a change only. A token that is not of your store is an error.
-- Example: FROM holders_by_day((SELECT min(token_address) FROM stored_tokens), '2026-06-28', '2026-06-30') ORDER BY chain, day;
CREATE OR REPLACE MACRO holders_by_day(of_token, first_day, last_day, zone := 'UTC') AS TABLE
WITH days AS (
    SELECT stored.chain, stored.token_address, days.day
    FROM periods('day', first_day, last_day, zone := zone) AS days
    CROSS JOIN stored_tokens AS stored
    WHERE stored.token_address = stored_token_of(of_token)
)
SELECT days.chain, days.token_address, days.day, coalesce(counts.holders, 0) AS holders
FROM days
ASOF LEFT JOIN holder_counts(of_token, zone := zone) AS counts ON counts.chain = days.chain AND counts.day <= days.day;

-- The owners of all items (token_id) of an NFT of your store at the end of the second t: one row for each holder of each
-- item, from your own transfers and opening balances as of the last load. An ERC-721 item has one holder, an ERC-1155 item
-- any number. since is the last transfer of the item with the holder, so t less since is its age. Items that were not
-- minted yet, or are burnt, have no row. After the last transfer (see stored_tokens) the owners do not change. A token without items,
-- or not of your store, is an error.
-- Example: SELECT address, count(*) AS items, min(since) AS since FROM item_owners_at((SELECT min(token_address) FROM transfers WHERE token_id = '1'), '2026-06-30') GROUP BY address ORDER BY items DESC, address LIMIT 3;
CREATE OR REPLACE MACRO item_owners_at(of_token, t) AS TABLE
WITH token AS MATERIALIZED (
    SELECT stored_token_of(of_token) AS address
),
of_token_moved AS NOT MATERIALIZED (
    FROM (FROM _internal.transfer_files UNION ALL FROM _internal.opening_files)
    WHERE token_address = (SELECT address FROM token)
),
checked AS MATERIALIZED (
    SELECT
        CASE
            WHEN EXISTS (FROM of_token_moved WHERE token_id IS NOT NULL) THEN unix_second(t)
            ELSE error(
                'the token ' || (SELECT address FROM token) || ' has no items: it is fungible, and balances_at has its holders'
            )
        END AS second
),
moved AS NOT MATERIALIZED (
    FROM of_token_moved
    WHERE token_id IS NOT NULL AND block_time <= (SELECT make_timestamp(second * 1000000 + 999999) FROM checked)
),
holdings AS (
    SELECT chain, token_address, token_id, to_address AS address, 1::BIGNUM AS quantity, block_time AS since
    FROM moved
    WHERE token_standard = 'erc721'
    QUALIFY row_number() OVER (
        PARTITION BY chain, token_address, token_id
        ORDER BY block_number DESC, log_index DESC, from_address DESC, to_address DESC
    ) = 1
    UNION ALL
    SELECT chain, token_address, token_id, address, sum(quantity), max(block_time)
    FROM (
        SELECT *, to_address AS address, CAST(value AS BIGNUM) AS quantity FROM moved WHERE token_standard <> 'erc721'
        UNION ALL
        SELECT *, from_address, -CAST(value AS BIGNUM) FROM moved WHERE token_standard <> 'erc721'
    )
    GROUP BY chain, token_address, token_id, address
)
SELECT * REPLACE (CAST(quantity AS VARCHAR) AS quantity)
FROM holdings
WHERE quantity > 0::BIGNUM AND address <> '0x0000000000000000000000000000000000000000';

-- Who holds one item (a token_id) of an NFT of your store at the end of the second t: its rows of item_owners_at.
-- Example: FROM item_owner_at((SELECT min(token_address) FROM transfers WHERE token_id = '1'), 1, '2026-06-30');
CREATE OR REPLACE MACRO item_owner_at(of_token, of_item, t) AS TABLE
FROM item_owners_at(of_token, t)
WHERE token_id = CAST(of_item AS VARCHAR);
