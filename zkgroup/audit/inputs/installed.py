"""Names the packages that the audit needs beyond those of zkgroup: the extras `audit` and `spark`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from zkgroup.errors import ConfigError

_NEEDED_BY_SPARK: Final = ("pyspark", "numpy", "pyarrow")


def require_columns() -> None:
    """Raises ConfigError where numpy or pyarrow is not installed."""
    try:
        import numpy as np  # noqa: F401
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"the audit needs numpy and pyarrow ({error}): pip install 'zkgroup[audit]'"
        ) from error


def require_spark() -> None:
    """Raises ConfigError where a package that a job on Spark needs is not installed."""
    missing = [name for name in _NEEDED_BY_SPARK if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Spark needs {', '.join(missing)}, not installed here: pip install 'zkgroup[spark]'"
        )
