"""The /v0 API over the engine, self-hosted: authenticates, meters, computes and answers in the contract's words.

What an answer means is the engine's work; what it looks like and costs is the contract's. Nothing here knows a
pipeline, an asset or a client.
"""
