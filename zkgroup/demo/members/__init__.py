"""The consumers of both demos: processes that read flights and write a line for each."""
