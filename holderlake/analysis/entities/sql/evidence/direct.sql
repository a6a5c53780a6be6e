-- Transfers between two wallets. If the first transfer that a wallet ever received came from the other one, all that it
-- received from there is evidence of funding. Only the transfers in the other direction count here.
-- Level 6 with times, level 5 without: the two meet few others, in data that would show it, which is one of
-- - both have 10 counterparties or fewer;
-- - both have 20 or fewer, and share one that has 50 or fewer;
-- - both have 50 or fewer, and share three of these;
-- - both have 50 or fewer, and one has no other counterparty but hubs, and no hub paid it first;
-- - both have 100 or fewer, and 5 transfers or more.
-- Levels 4, 3 and 2, without times: both have 15, 20 and 30 counterparties or fewer. They connect wallets over several hops.
-- Level 1: the others, of which most are market makers and friends, however often they pay each other. Also two wallets
-- whose first transfers came from hubs or payers by profession, such as customers of an exchange or staff; and
-- wallets whose first transfers the data lack, as nothing shows their first funder, nor how many others they meet.
WITH ordinary AS (
    SELECT
        degrees.id,
        counterparties,
        funder,
        coalesce(funder IN (SELECT id FROM hubs) OR funder IN (SELECT id FROM distributors), false) AS is_customer
    FROM degrees
    LEFT JOIN funded ON funded.id = degrees.id
    WHERE degrees.id NOT IN (SELECT id FROM hubs)
),
known AS (
    SELECT
        ties.*,
        coalesce(second.funder = ties.a, false) AS funds_b,
        coalesce(first.funder = ties.b, false) AS funds_a,
        first.is_customer AS a_is_customer,
        second.is_customer AS b_is_customer,
        greatest(first.counterparties, second.counterparties) AS counterparties
    FROM ties
    JOIN ordinary AS first ON first.id = ties.a
    JOIN ordinary AS second ON second.id = ties.b
),
private AS (
    SELECT a AS id, b AS other FROM known
    UNION ALL
    SELECT b, a FROM known
),
leaves AS (
    SELECT id FROM private GROUP BY id HAVING count(*) = 1
),
shared AS (
    SELECT known.a, known.b, count(*) AS shared
    FROM known
    JOIN private AS of_a ON of_a.id = known.a
    JOIN private AS of_b ON of_b.id = known.b AND of_b.other = of_a.other
    JOIN ordinary ON ordinary.id = of_a.other AND ordinary.counterparties <= 50
    WHERE known.counterparties BETWEEN 11 AND 50
    GROUP BY known.a, known.b
),
counted AS (
    SELECT
        known.*,
        coalesce(shared.shared, 0) AS shared,
        CASE WHEN funds_b THEN 0 ELSE forth END + CASE WHEN funds_a THEN 0 ELSE back END AS transfers,
        least(CASE WHEN NOT funds_b THEN first_forth END, CASE WHEN NOT funds_a THEN first_back END) AS first_time,
        greatest(CASE WHEN NOT funds_b THEN last_forth END, CASE WHEN NOT funds_a THEN last_back END) AS last_time
    FROM known
    LEFT JOIN shared ON shared.a = known.a AND shared.b = known.b
),
linked AS (
    SELECT
        CAST(a AS BIGINT) * 2147483648 + b AS link,
        a,
        b,
        CASE
            WHEN NOT is_complete OR (a_is_customer AND b_is_customer) THEN 1
            WHEN a IN (SELECT id FROM uncovered) OR b IN (SELECT id FROM uncovered) THEN 1
            WHEN
                counterparties <= 10
                OR (counterparties <= 20 AND shared >= 1)
                OR (counterparties <= 50 AND shared >= 3)
                OR (counterparties <= 50 AND a IN (SELECT id FROM leaves) AND NOT a_is_customer)
                OR (counterparties <= 50 AND b IN (SELECT id FROM leaves) AND NOT b_is_customer)
                OR (counterparties <= 100 AND transfers >= 5)
                THEN CASE WHEN first_time IS NULL THEN 5 ELSE 6 END
            WHEN first_time IS NOT NULL OR counterparties > 30 THEN 1
            WHEN counterparties > 20 THEN 2
            WHEN counterparties > 15 THEN 3
            ELSE 4
        END AS level,
        transfers,
        first_time,
        last_time
    FROM counted
    WHERE transfers >= 1
)
SELECT link, a AS id, b AS through, level, transfers, first_time, last_time FROM linked
UNION ALL
SELECT link, b, a, level, transfers, first_time, last_time FROM linked
