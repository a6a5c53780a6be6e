"""Commands about the user's own store and service: imports, labels, rules, keys, cluster."""
