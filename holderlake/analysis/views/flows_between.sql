-- Transfers between two addresses in both directions, summed by token, as in address_transfers without its windows.
-- Example: FROM flows_between('0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222');
CREATE OR REPLACE MACRO flows_between(a, b) AS TABLE
SELECT
    timestamp, from_address, to_address, rel_type, transfer_chain, transfer_token,
    total_value, total_value_exact, total_transfers, first_date, last_date
FROM address_transfers(a)
WHERE counterparty = plain_address(b) AND NOT is_window;
