"""
Drives Debian's Chromium over its debugging pipe, without a driver, a port or a library.

Messages are JSON, each ended by a NUL byte, on descriptors 3 (to the browser) and 4 (from it).
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time


HANGS_S = 60  # seconds; while compilers run on the machine, any step of a browser may need several


def available():
    return shutil.which("chromium") is not None


class BrowserError(Exception):
    """The browser reported an error or did not answer in time."""


class Browser:
    """One headless browser with one tab. Console errors and failed loads are collected in `errors`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self.write_fd = os.pipe()
        self.read_fd, from_browser = os.pipe()

        def descriptors():
            # Moves both descriptors above 4 first. Otherwise one dup2() could overwrite the other descriptor.
            a, b = os.dup2(to_browser, 103), os.dup2(from_browser, 104)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-extensions", "--disable-sync", "--mute-audio", "--no-proxy-server",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.errors = []
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise BrowserError("no message in time")
            chunk = os.read(self.read_fd, 1 << 16)
            if not chunk:
                raise BrowserError("the browser has gone")
            self.buffer += chunk
        raw, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(raw)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert", "warning"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method:
            self.events.append(message)

    def call(self, method, timeout=HANGS_S, **params):
        """Calls a method of the protocol and returns its result. Records the events that arrive meanwhile."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            message = self._message(deadline)
            if message.get("id") != self.number:
                self._note(message)
            elif "error" in message:
                raise BrowserError(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def js(self, expression):
        """The value of a JavaScript expression. Awaits promises."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(result["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return result["result"].get("value")

    def wait(self, expression, timeout=HANGS_S):
        """Waits until the expression is true."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                value = self.js(expression)
            except BrowserError:
                value = None  # the expression fails while one document replaces another
            if value:
                return value
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {expression}; the page says: {self.text()[:400]}")
            time.sleep(0.05)

    def open(self, url):
        # The navigation is complete when the new document says so. The old document's answer does not count.
        self.js("window.__old = true")
        self.call("Page.navigate", url=url)
        self.wait("!window.__old && document.readyState === 'complete'")

    def view(self, width, height, dark=False, mobile=False, scripts=True):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)

    def text(self):
        return self.js("document.body.innerText")

    def screenshot(self, path):
        """Takes a screenshot of the whole page."""
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(image))

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
        shutil.rmtree(self.profile, ignore_errors=True)
