-- Pairs (a, b) of wallets that the preset joins, and their confidence: each wallet of a group with its strongest one, so
-- that the pairs of a higher confidence connect the same wallets as the evidence of that confidence.
CREATE OR REPLACE TABLE joins AS
WITH evidence AS (
    SELECT
        id,
        kinds.family,
        dense_rank() OVER (ORDER BY links.kind, links.link) AS fact,
        confidence
    FROM links
    JOIN kinds ON kinds.kind = links.kind
),
agreed AS (
    SELECT one.id, one.fact AS fact, other.fact AS other, 1 - (1 - one.confidence) * (1 - other.confidence) AS confidence
    FROM evidence AS one
    JOIN evidence AS other ON other.id = one.id AND one.family < other.family
    UNION ALL
    SELECT id, fact, fact, confidence
    FROM evidence
    WHERE getvariable('families') = 1
),
enough AS (
    SELECT
        fact,
        other,
        id,
        confidence,
        first_value(id) OVER (PARTITION BY fact, other ORDER BY confidence DESC, id) AS first
    FROM agreed
    WHERE confidence >= getvariable('confidence')
)
SELECT first AS a, id AS b, max(confidence) AS confidence
FROM enough
WHERE first <> id
GROUP BY ALL
ORDER BY ALL;
