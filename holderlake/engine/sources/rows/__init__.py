"""Files of rows as Arrow tables, whatever their format. What the columns mean is decided by the readers."""
