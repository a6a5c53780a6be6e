-- What was searched, as in the file entity_searches.parquet.
SELECT
    CAST($as_of AS BIGINT) AS as_of,
    CAST($confidence AS DOUBLE) AS confidence,
    (SELECT count(*) FROM moves) AS transfers,
    (SELECT count(DISTINCT root) FROM members) AS entities,
    (SELECT count(*) FROM members) AS joined
