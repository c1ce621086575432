"""A headless Chromium, controlled through pipes: no port, no driver, only the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S, ended

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--no-zygote", "--remote-debugging-pipe", "--disable-crash-reporter", "--disable-breakpad"),
)


def found() -> str | None:
    """The browser's command; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. It keeps its scripts' errors and its network requests."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._rest = b""
        self._id = 0
        self.faults: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command. Raises TimeoutError, and RuntimeError for an error of the browser."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def open(
        self, page: Path | str, width: int, height: int, *, dark: bool = False, phone: bool = False
    ) -> None:
        """Shows a file or an address, and waits until its scripts have drawn it."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not self._loaded:
            self._next()
        self.settle()

    def settle(self) -> None:
        """Waits until all pending frames are drawn."""
        twice = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        self.ask(twice)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Sends a key press."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, file: Path) -> None:
        """A screenshot as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._back], [], [], left)[0]:
                raise TimeoutError("no message from the browser")
            chunk = os.read(self._back, 1 << 20)
            if not chunk:
                raise TimeoutError("the browser has ended")
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.faults.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.faults.append(str(params["entry"]["text"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(str(params["request"]["url"]))


@contextmanager
def browser(command: str, profile: Path) -> Iterator[Page]:
    """Runs a browser with a new profile; it ends with the block."""
    to_read, to_write = os.pipe()
    back_read, back_write = os.pipe()

    def third_and_fourth() -> None:
        high = [os.dup(to_read), os.dup(back_write)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(
        [command, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=third_and_fourth,
        start_new_session=True,
    )
    os.close(to_read)
    os.close(back_write)
    try:
        page = Page(to_write, back_read)
        yield page
        page._session = None
        with suppress(TimeoutError, RuntimeError, OSError):
            page.call("Browser.close")
        ended(process)
    finally:
        os.close(to_write)
        os.close(back_read)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        ended(process)
