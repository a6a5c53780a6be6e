-- The instant t as a TIMESTAMP in UTC, from a date, a date-time (UTC unless it names a zone), unix seconds of at least
-- nine digits, or a text of one of these. Anything else, such as a year, is an error. All macros read their times
-- with it.
-- Example: SELECT instant('2025-06-30T12:00:00+02:00') AS from_text, instant(1751277600) AS from_unix_seconds;
CREATE OR REPLACE MACRO instant(t) AS
CASE
    WHEN regexp_full_match(CAST(t AS VARCHAR), '\d{9,12}')
    THEN make_timestamp(TRY_CAST(CAST(t AS VARCHAR) AS BIGINT) * 1000000)
    WHEN regexp_full_match(CAST(t AS VARCHAR), '\d*')
    THEN error(
        '''' || CAST(t AS VARCHAR) || ''' is not a time: write a date such as 2026-06-30, a date-time such as '
        || '2026-06-30T12:00:00Z, or unix seconds'
    )
    WHEN regexp_matches(CAST(t AS VARCHAR), '\d:\d\d.*([zZ]|[+-]\d\d(:?\d\d)?|[A-Za-z]+/[\w/]+)$')
    THEN timezone('UTC', CAST(CAST(t AS VARCHAR) AS TIMESTAMPTZ))
    ELSE CAST(t AS TIMESTAMP)
END;

-- The instant t2 as the end of a period that begins at t1; t2 before t1 is an error.
-- Example: SELECT end_of_period('2026-06-01', '2026-06-30') AS end;
CREATE OR REPLACE MACRO end_of_period(t1, t2) AS
CASE
    WHEN instant(t2) < instant(t1)
    THEN error('the period ends at ' || CAST(t2 AS VARCHAR) || ', before it begins at ' || CAST(t1 AS VARCHAR) || ': swap them')
    ELSE instant(t2)
END;
