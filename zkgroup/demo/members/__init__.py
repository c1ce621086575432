"""The consumers of all demos: processes that read flights and write a line for each."""
