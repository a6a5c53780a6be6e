-- The exact text of an amount, from its two columns (amount and amount_exact, or total_value and total_value_exact).
-- Example: SELECT address, exact_amount(amount, amount_exact) AS held FROM latest_holders ORDER BY chain, token_address, rank LIMIT 3;
CREATE OR REPLACE MACRO exact_amount(amount, exact) AS
coalesce(exact, regexp_replace(CAST(amount AS VARCHAR), '\.?0*$', ''));

-- The text of an amount as a whole number of 10^-36, for exact sums and differences. Further decimals are cut off.
-- Example: SELECT amount_units('12.5') AS units;
CREATE OR REPLACE MACRO amount_units(exact) AS
CAST(
    CASE WHEN starts_with(exact, '-') THEN '-' ELSE '' END
    || ltrim(split_part(exact, '.', 1), '-')
    || rpad(split_part(exact, '.', 2), 36, '0')
    AS BIGNUM
);

-- The text of a whole number of 10^-36: the inverse of amount_units.
-- Example: SELECT amount_text(amount_units('12.5') - amount_units('20')) AS change;
CREATE OR REPLACE MACRO amount_text(units) AS
CASE WHEN starts_with(CAST(units AS VARCHAR), '-') THEN '-' ELSE '' END
|| regexp_replace(left(lpad(ltrim(CAST(units AS VARCHAR), '-'), 136, '0'), 100), '^0+(\d)', '\1')
|| regexp_replace('.' || right(lpad(ltrim(CAST(units AS VARCHAR), '-'), 136, '0'), 36), '\.?0*$', '');

-- An amount of any size as a number to order and compare by, from its two columns. ORDER BY amount, max(amount) and
-- amount > x leave out amounts that only the exact column has, and a text orders 9 after 10. amount_text gives the text
-- of it. For raw whole numbers as text, such as raw_amount, write raw_amount::BIGNUM.
-- Example: SELECT amount_text(max(exact_number(amount, amount_exact))) AS largest FROM latest_holders;
CREATE OR REPLACE MACRO exact_number(amount, exact) AS amount_units(exact_amount(amount, exact));

-- The exact sum of amounts of any size as text, from their two columns: an aggregate, like sum. sum(amount) alone
-- ignores amounts that only the exact column contains, and fails if a sum passes 10^20. A macro has no FILTER: give the
-- condition as counted, for example exact_total(amount, amount_exact, counted := rank <= 10).
-- Example: SELECT chain, token_address, exact_total(amount, amount_exact) AS listed FROM latest_holders GROUP BY ALL ORDER BY ALL;
CREATE OR REPLACE MACRO exact_total(amount, exact, counted := true) AS
-- plain decimals below 10^12 can't overflow in sum; the others, which are few, are added as whole numbers
CASE
    WHEN count(CASE WHEN counted AND (exact IS NOT NULL OR abs(amount) >= 1000000000000) THEN 1 END) = 0
    THEN exact_amount(sum(CASE WHEN counted AND abs(amount) < 1000000000000 THEN amount END), NULL)
    ELSE amount_text(
        amount_units(
            CAST(
                sum(CASE WHEN counted AND exact IS NULL AND abs(amount) < 1000000000000 THEN amount ELSE 0 END) AS VARCHAR
            )
        )
        + sum(
            CASE
                WHEN counted AND (exact IS NOT NULL OR abs(amount) >= 1000000000000)
                THEN amount_units(coalesce(exact, CAST(amount AS VARCHAR)))
            END
        )
    )
END;

-- The decimal column of an amount, from its exact text; null if the amount is too large for it or has more than 18
-- decimals. as_exact gives the other column.
-- Example: SELECT as_amount('1.5') AS decimal, as_exact('1.5') AS exact, as_exact('100000000000000000000') AS exact_of_large;
CREATE OR REPLACE MACRO as_amount(exact) AS
CASE
    WHEN length(ltrim(split_part(exact, '.', 1), '-')) <= 20 AND length(rtrim(split_part(exact, '.', 2), '0')) <= 18
    THEN TRY_CAST(exact AS DECIMAL(38, 18))
END;

-- The exact column of an amount, from its exact text; null if the decimal column (as_amount) has the amount.
-- Example: SELECT as_exact('1.5') AS null_for_the_decimal_holds_it, as_exact('100000000000000000000') AS exact;
CREATE OR REPLACE MACRO as_exact(exact) AS
CASE WHEN exact_amount(as_amount(exact), NULL) = exact THEN NULL ELSE exact END;
