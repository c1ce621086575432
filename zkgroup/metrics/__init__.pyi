# The public names, for type checkers and for `zkgroup.exports`: one list for both.
from zkgroup.metrics.prometheus import PrometheusMetrics as PrometheusMetrics
from zkgroup.metrics.serving import serve_metrics as serve_metrics
