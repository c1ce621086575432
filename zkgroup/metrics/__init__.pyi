# The public names, for type checkers and for `zkgroup.exports`: one list for both.
from zkgroup.metrics.prometheus import PrometheusMetrics as PrometheusMetrics
