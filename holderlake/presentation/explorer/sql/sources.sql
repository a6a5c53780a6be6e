-- Differences between two sources about a token as of an instant, as 'holderlake compare --keep' found them: first those
-- of each kind that most rows share. found is the number of all rows of the two sources.
SELECT
    source_a,
    source_b,
    what,
    subject,
    a,
    b,
    cause,
    CAST(epoch(compared_at) AS BIGINT) AS compared_at,
    count(*) OVER (PARTITION BY source_a, source_b) AS found
FROM comparisons
WHERE chain = $chain AND token_address = $token AND timestamp = $at
QUALIFY row_number() OVER (PARTITION BY source_a, source_b ORDER BY what, subject) <= $most
ORDER BY source_a, source_b, what, subject
