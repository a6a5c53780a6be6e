"""The credit ledger: the cost of each call, reserved before the call. Amounts are hundredths of a credit.

HTTP calls and the archive do not belong here.
"""
