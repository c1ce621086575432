"""The exit codes of the command line; those of errors are theirs (`ZkGroupError.exit_code`)."""

from __future__ import annotations

EXIT_ERROR = 1
EXIT_CHECK_FAILED = 3
EXIT_PARTLY_DONE = 4
EXIT_INTERRUPTED = 130
