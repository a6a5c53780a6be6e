"""The provider in this process, and the user's own store: the embedded service, the local engine, imports."""
