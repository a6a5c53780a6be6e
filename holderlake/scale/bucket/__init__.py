"""The lake and the archive in object storage, with a cache of files on this host and one writer at a time."""
