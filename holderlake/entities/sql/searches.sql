-- What was searched, as in the file entity_searches.parquet.
SELECT
    getvariable('as_of') AS as_of,
    getvariable('preset') AS preset,
    (SELECT count(*) FROM moves) AS transfers,
    (SELECT count(DISTINCT root) FROM members) AS entities,
    (SELECT count(*) FROM members) AS joined
