"""One Spark session for the whole run: it takes up to a minute to start."""

from __future__ import annotations

from tests.long.spark.spark import audited as audited
from tests.long.spark.spark import running_spark as running_spark
from tests.long.spark.spark import spark as spark
