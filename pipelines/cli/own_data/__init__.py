"""Commands about the user's own store and service: imports, labels, indexed tokens, keys, cluster.

They parse options and call ``holderlake.local``, which does the work.
"""
