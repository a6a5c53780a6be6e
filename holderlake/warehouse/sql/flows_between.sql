-- What two addresses sent each other, in both directions, by token. Maps and named address sets hold sums from the
-- first transfer on, so of all that is known the row with most transfers is taken; timestamp is the partition it stands
-- in. Hexadecimal addresses may be written in any case. Relationships within a time node cover one window: left out.
-- Example: FROM flows_between('0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222');
CREATE OR REPLACE MACRO flows_between(a, b) AS TABLE
SELECT
    timestamp, from_address, to_address, rel_type, transfer_chain, transfer_token,
    total_value, total_value_exact, total_transfers, first_date, last_date
FROM address_transfers(a)
WHERE counterparty = plain_address(b) AND NOT is_window;
