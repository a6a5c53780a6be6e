-- Grouped transfers in each of the chosen windows of time.
SELECT
    w.chain AS chain, w.token_address AS token_address, w.as_of AS as_of, w.place AS place,
    t.from_address AS from_address, t.to_address AS to_address, t.moved_chain AS moved_chain,
    t.moved_token AS moved_token, sum(t.low) AS low_moved, sum(t.middle) AS middle_moved, sum(t.high) AS high_moved,
    count(*) AS number, min(t.second) AS begun, max(t.second) AS ended
FROM windows AS w
JOIN exchange_transfers AS t
    ON w.chain = t.chain AND w.token_address = t.token_address AND w.as_of = t.as_of
    AND w.exchange = t.exchange AND w.time_window = t.time_window
GROUP BY
    w.chain, w.token_address, w.as_of, w.place, t.from_address, t.to_address, t.moved_chain, t.moved_token
