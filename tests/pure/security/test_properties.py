"""Java's properties files: what `java.util.Properties` of Java 17 reads of the same text."""

from __future__ import annotations

from pathlib import Path

import pytest

from zkgroup.errors import ConfigError
from zkgroup.security.properties import parse_properties, read_properties

TEXT = (
    "a=1\n # comment\n!c\nb : 2\n  d   e f \ng\\ h=x\\\n   y\\\\\nk\\=l=m=n\r\nu=\\u00e9\\t|\\q\n"
    "trail=v  \n\n"
    "a=3\rempty\nz=\\\n# not a comment\nlast=\\"
)


def test_a_file_is_read_as_by_java() -> None:
    """Comments, escapes, continued lines, both separators; of two values of a name the last one."""
    assert parse_properties(TEXT, "t") == {
        "a": "3",
        "b": "2",
        "d": "e f ",
        "g h": "xy\\",
        "k=l": "m=n",
        "u": "é\t|q",
        "trail": "v  ",
        "empty": "",
        "z": "# not a comment",
        "last": "",
    }


def test_an_error_names_file_and_line(tmp_path: Path) -> None:
    """The line where the wrong value begins."""
    path = tmp_path / "server.properties"
    path.write_text("a=1\\\n2\nb=\\u12\n")

    with pytest.raises(ConfigError, match=r"server\.properties, line 3: expected four hexadecimal digits"):
        read_properties(path)
    with pytest.raises(ConfigError, match=r"none\.properties: No such file"):
        read_properties(tmp_path / "none.properties")
