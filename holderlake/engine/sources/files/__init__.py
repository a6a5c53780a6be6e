"""Files of transfers: known layouts and exports, event logs, and any columns by a map."""
