"""The paths of the API, one module a resource of the contract. A route names its parameters; the rest is elsewhere."""
