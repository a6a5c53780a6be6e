"""What every HTTP client of the project shares: the provider's, the nodes' and the webhook's.

What one of them says to its server stands in its own package.
"""
