"""Entities: wallets that probably have one owner, by evidence of several kinds from transfers.

``kinds`` lists the kinds of evidence, with their confidences. ``links`` finds the evidence and
joins the wallets. The contract's clusters (``engine.maps``) are another thing: they follow its rule exactly.
"""
