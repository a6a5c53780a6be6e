-- The tables that all comparisons read, from the attached databases a and b: scope (tokens and instants whose lists of
-- holders both have, with what explains differences of all their rows), held_a and held_b.
CREATE TABLE held_a AS
SELECT *, coalesce(amount_exact, CAST(amount AS VARCHAR)) AS exact, true AS is_held FROM a.holders;

CREATE TABLE held_b AS
SELECT *, coalesce(amount_exact, CAST(amount AS VARCHAR)) AS exact, true AS is_held FROM b.holders;

CREATE TABLE lists_a AS
SELECT chain, token_address, timestamp, count(*) AS rows, max(rank) AS last, bit_xor(hash(address, exact)) AS content
FROM held_a
GROUP BY ALL;

CREATE TABLE lists_b AS
SELECT chain, token_address, timestamp, count(*) AS rows, max(rank) AS last, bit_xor(hash(address, exact)) AS content
FROM held_b
GROUP BY ALL;

-- Amounts that differ, and whether the amount of a side is still the same at its next instant.
CREATE TABLE differing AS
WITH later_a AS (
    SELECT chain, token_address, timestamp, address, exact, lead(exact) OVER later AS next
    FROM held_a
    WINDOW later AS (PARTITION BY chain, token_address, address ORDER BY timestamp)
),
later_b AS (
    SELECT chain, token_address, timestamp, address, exact, lead(exact) OVER later AS next
    FROM held_b
    WINDOW later AS (PARTITION BY chain, token_address, address ORDER BY timestamp)
)
SELECT
    chain, token_address, timestamp, address,
    log10(CAST(later_a.exact AS DOUBLE) / nullif(CAST(later_b.exact AS DOUBLE), 0)) AS ratio,
    coalesce(later_a.exact = later_a.next, true) AS stays_a,
    coalesce(later_b.exact = later_b.next, true) AS stays_b
FROM later_a
JOIN later_b USING (chain, token_address, timestamp, address)
WHERE later_a.exact <> later_b.exact;

-- amounts: the number of amounts that differ. decimals: the power of ten between all amounts, if it is one and the same. is_late: the list of one side is the other
-- side's of another instant, and the other side's present amounts stay at its next instant.
CREATE TABLE scope AS
WITH ratios AS (
    SELECT
        chain, token_address, timestamp, count(*) AS amounts, min(ratio) AS least, max(ratio) AS most,
        bool_or(stays_a) AS stays_a, bool_or(stays_b) AS stays_b
    FROM differing
    GROUP BY ALL
)
SELECT
    lists_a.chain,
    lists_a.token_address,
    lists_a.timestamp,
    lists_a.last AS last_a,
    lists_b.last AS last_b,
    coalesce(amounts, 0) AS amounts,
    CASE
        WHEN amounts > 1 AND most - least < 1e-6 AND abs(round(most)) >= 1 AND abs(most - round(most)) < 1e-6
            THEN round(most)
    END AS decimals,
    coalesce(
        (stays_a AND lists_b.content IN (
            SELECT content
            FROM lists_a AS other
            WHERE other.chain = lists_b.chain AND other.token_address = lists_b.token_address
                AND other.timestamp <> lists_b.timestamp
        ))
        OR (stays_b AND lists_a.content IN (
            SELECT content
            FROM lists_b AS other
            WHERE other.chain = lists_a.chain AND other.token_address = lists_a.token_address
                AND other.timestamp <> lists_a.timestamp
        )),
        false
    ) AS is_late
FROM lists_a
JOIN lists_b USING (chain, token_address, timestamp)
LEFT JOIN ratios USING (chain, token_address, timestamp);
