"""From a request to its answer: routes, authentication, charges and the answers themselves."""
