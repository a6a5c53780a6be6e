-- Normalise sums of limbs of 26 digits, "low_reached", "middle_reached" and "high_reached" of "reached": carry each
-- limb into the next. Then limbs are from 0 to 10^26, except the highest, which has the sign. The upper two limbs are
-- null if no number of the token needs them.
rests AS (
    SELECT
        *,
        CASE
            WHEN middle_reached IS NOT NULL THEN
                (low_reached % 100000000000000000000000000 + 100000000000000000000000000)
                % 100000000000000000000000000
        END AS low_rest
    FROM reached
),
-- the carry is a small whole number, so it is exact even if an engine divides decimals as doubles
once AS (
    SELECT
        *,
        middle_reached
        + CAST(round((low_reached - low_rest) / 100000000000000000000000000) AS DECIMAL(38, 0)) AS middle_carried
    FROM rests
),
twice AS (
    SELECT
        *,
        (middle_carried % 100000000000000000000000000 + 100000000000000000000000000) % 100000000000000000000000000
            AS middle_rest
    FROM once
),
carried AS (
    SELECT
        *,
        CASE WHEN middle_reached IS NULL THEN low_reached ELSE CAST(low_rest AS DECIMAL(38, 0)) END AS low,
        CAST(middle_rest AS DECIMAL(38, 0)) AS middle,
        CAST(
            high_reached
            + CAST(round((middle_carried - middle_rest) / 100000000000000000000000000) AS DECIMAL(38, 0))
            AS DECIMAL(38, 0)
        ) AS high
    FROM twice
)
