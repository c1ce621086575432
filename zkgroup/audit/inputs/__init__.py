"""The inputs of an audit: folders, exports, living ensembles and Parquet, as one table of rows."""
