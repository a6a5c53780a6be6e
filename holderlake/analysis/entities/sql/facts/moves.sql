-- The transfers up to an instant, or all if it is null.
SELECT * FROM every_move WHERE $until IS NULL OR block_time <= $until
