"""The file for `spark-submit`: the command line as one file.

spark-submit --master URL submit.py audit run --input DIR --output DIR
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys
    from importlib import import_module
    from pathlib import Path

    # The folder of a script comes first on the path, and its modules would hide others.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [place for place in sys.path if place != here]
    import_module("zkgroup_cli.entry").main()
