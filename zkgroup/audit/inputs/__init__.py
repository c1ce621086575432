"""Holds what an audit reads: folders, exports, living ensembles and Parquet, as one table of rows."""
