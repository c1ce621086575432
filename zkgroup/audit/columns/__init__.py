"""Rows as columns, and the tables that screens read. Needs numpy and pyarrow (the extra `fast`)."""
