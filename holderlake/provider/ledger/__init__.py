"""The credit ledger: what each call costs, reserved before it is made. Amounts are hundredths of a credit."""
