-- The instant that t means, as a TIMESTAMP in UTC: a date, a date-time (UTC unless it names a zone), unix seconds, or
-- text that reads as one. Every macro here takes its times so.
-- Example: SELECT instant('2025-06-30T12:00:00+02:00') AS from_text, instant(1751277600) AS from_unix_seconds;
CREATE OR REPLACE MACRO instant(t) AS
CASE
    WHEN regexp_full_match(CAST(t AS VARCHAR), '\d{1,12}')
    THEN make_timestamp(TRY_CAST(CAST(t AS VARCHAR) AS BIGINT) * 1000000)
    WHEN regexp_matches(CAST(t AS VARCHAR), '\d:\d\d.*([zZ]|[+-]\d\d(:?\d\d)?)$')
    THEN timezone('UTC', TRY_CAST(CAST(t AS VARCHAR) AS TIMESTAMPTZ))
    ELSE CAST(t AS TIMESTAMP)
END;
