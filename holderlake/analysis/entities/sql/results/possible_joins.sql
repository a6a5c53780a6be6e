-- Pairs (a, b) of wallets with evidence of at least a confidence, and their confidence. Evidence p and q of two bases
-- has 1 - (1 - p)(1 - q) together. Each wallet of a group has a pair with its strongest one, so that the pairs of a higher
-- confidence connect the same wallets as the evidence of that confidence.
WITH evidence AS (
    SELECT
        links.id,
        kinds.basis,
        dense_rank() OVER (ORDER BY links.kind, links.link) AS fact,
        links.confidence
    FROM links
    JOIN kinds ON kinds.kind = links.kind
),
agreed AS (
    SELECT one.id, one.fact AS fact, other.fact AS other, 1 - (1 - one.confidence) * (1 - other.confidence) AS confidence
    FROM evidence AS one
    JOIN evidence AS other ON other.id = one.id AND one.basis < other.basis
    UNION ALL
    SELECT id, fact, fact, confidence
    FROM evidence
),
enough AS (
    SELECT
        fact,
        other,
        id,
        confidence,
        first_value(id) OVER (PARTITION BY fact, other ORDER BY confidence DESC, id) AS strongest
    FROM agreed
    WHERE confidence >= $confidence
)
SELECT strongest AS a, id AS b, max(confidence) AS confidence
FROM enough
WHERE strongest <> id
GROUP BY strongest, id
