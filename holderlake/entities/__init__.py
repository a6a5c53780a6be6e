"""Entities: wallets that probably have one owner, by evidence of several kinds from transfers.

``kinds`` lists the kinds of evidence and the rules (presets) that join wallets. ``links`` finds the evidence and
joins the wallets. The contract's clusters (``engine.maps``) are another thing: they follow its rule exactly.
"""
