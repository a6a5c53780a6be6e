-- True for a time that names a complete day: a date, or a midnight without a zone, as generate_series and date_trunc
-- make it from dates. A midnight with a zone (TIMESTAMPTZ, or a text such as 2026-06-30T00:00:00Z) and unix seconds name
-- the instant.
-- Example: SELECT is_day(DATE '2026-06-30') AS date, is_day(TIMESTAMP '2026-06-30') AS midnight, is_day('2026-06-30T00:00:00Z') AS instant;
CREATE OR REPLACE MACRO is_day(t) AS
regexp_full_match(CAST(t AS VARCHAR), '\s*\d+-\d+-\d+\s*([T ]\s*00?:00(:00(\.0*)?)?\s*)?');

-- The instant t as a TIMESTAMP in UTC, from a date, a date-time (UTC unless it names a zone), unix seconds of at least
-- nine digits, or a text of one of these. A complete day (is_day: a date, or a midnight without a zone) means its end, so
-- that its last answer counts. Anything else, such as a year, is an error. All macros read their times with it.
-- Example: SELECT instant('2025-06-30T12:00:00+02:00') AS from_text, instant('2025-06-30') AS end_of_date, instant(1751277600) AS from_unix_seconds;
CREATE OR REPLACE MACRO instant(t) AS
coalesce(
    CASE
        WHEN regexp_full_match(CAST(t AS VARCHAR), '\d{9,12}')
        THEN make_timestamp(TRY_CAST(CAST(t AS VARCHAR) AS BIGINT) * 1000000)
        WHEN regexp_full_match(CAST(t AS VARCHAR), '\d*') THEN NULL
        WHEN regexp_matches(CAST(t AS VARCHAR), '\d:\d\d.*([zZ]|[+-]\d\d(:?\d\d)?|[A-Za-z]+/[\w/]+)$')
        THEN timezone('UTC', TRY_CAST(CAST(t AS VARCHAR) AS TIMESTAMPTZ))
        WHEN is_day(t)
        THEN TRY_CAST(t AS TIMESTAMP) + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND
        ELSE TRY_CAST(t AS TIMESTAMP)
    END,
    CASE
        WHEN t IS NOT NULL
        THEN error(
            '''' || CAST(t AS VARCHAR) || ''' is not a time: write a date such as 2026-06-30, which means its end, a '
            || 'date-time such as 2026-06-30T12:00:00Z, or unix seconds'
        )
    END
);

-- The beginning of a period that starts at t: like instant, but a complete day means its beginning.
-- Example: SELECT start_of_period('2026-06-01') AS start;
CREATE OR REPLACE MACRO start_of_period(t) AS
CASE
    WHEN is_day(t) THEN date_trunc('day', instant(t))
    ELSE instant(t)
END;

-- The instant t2 as the end of a period that begins at t1; t2 before t1 is an error, and so is a NULL.
-- Example: SELECT end_of_period('2026-06-01', '2026-06-30') AS end;
CREATE OR REPLACE MACRO end_of_period(t1, t2) AS
CASE
    WHEN t1 IS NULL OR t2 IS NULL
    THEN error('a period from ' || coalesce(CAST(t1 AS VARCHAR), 'NULL') || ' to ' || coalesce(CAST(t2 AS VARCHAR), 'NULL') || ' has no two ends: give a date, a date-time or unix seconds for each')
    WHEN instant(t2) < instant(t1)
    THEN error('the period ends at ' || CAST(t2 AS VARCHAR) || ', before it begins at ' || CAST(t1 AS VARCHAR) || ': swap them')
    ELSE instant(t2)
END;

-- The age beyond which an answer is too old for the instant that it was requested for (is_outdated): sql.as_of_warning
-- of the settings, as of the last load.
-- Example: SELECT as_of_warning() AS age;
CREATE OR REPLACE MACRO as_of_warning() AS INTERVAL 1 DAY;

-- How an answer fits the instant t that was requested: columns for the macros as of t.
-- Example: SELECT as_of_distance('2026-06-20', TIMESTAMP '2026-06-16') AS days;
CREATE OR REPLACE MACRO as_of_distance(t, answered) AS
round(date_diff('second', answered, instant(t)) / 86400, 3);

-- The instant t as whole unix seconds, cut off.
-- Example: SELECT unix_second('2025-06-30T12:00:00.9') AS second;
CREATE OR REPLACE MACRO unix_second(t) AS
CASE WHEN t IS NULL THEN error('the time is NULL: give a date, a date-time or unix seconds') ELSE epoch_us(instant(t)) // 1000000 END;
