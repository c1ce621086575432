"""The demos of `zkgroup demo`: real records, killed processes, and the proof that no record was lost.

Their brokers are their own, in processes that they end; so none takes `--command-config`.
"""
