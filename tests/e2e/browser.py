"""A headless Chromium, driven through its DevTools pipe: what the page shows, says and asks for.

Its packages take 350 MB, so scripts/bootstrap does not install it: apt install chromium, and set TS_BROWSER=1."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

from tracesmith import wait_for

WANTED = os.environ.get("TS_BROWSER")
# Chromium reads commands from the descriptor 3 and writes answers to 4.
OPEN = 'exec 3<&"$1" 4>&"$2"; shift 2; exec chromium "$@"'


class Browser:
    def __init__(self, width=1600, height=900):
        self.directory = tempfile.mkdtemp(prefix="tracesmith-browser-")
        theirs_in, self.to = os.pipe()
        self.answers, theirs_out = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", OPEN, "browser", str(theirs_in), str(theirs_out), "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run", "--remote-debugging-pipe",
             f"--user-data-dir={self.directory}", f"--window-size={width},{height}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def receive(self):
        while b"\0" not in self.rest:
            data = os.read(self.answers, 1 << 16)
            assert data, "the browser has ended"
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression):
        """Until it is true; while a page is being opened, nothing is."""
        return wait_for(expression, lambda: self.js(f"(() => {{ try {{ return {expression}; }} catch {{ return false; }} }})()"))

    def open(self, url):
        """Until the view has shown its first answer."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement.dataset.rounds > 0")

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, x, to, y):
        """With Shift."""
        self.move(x, y)
        for kind, at in (("mousePressed", x), ("mouseMoved", (x + to) / 2), ("mouseMoved", to), ("mouseReleased", to)):
            self.call("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", buttons=1, clickCount=1, modifiers=8)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def complaints(self):
        """What the console has been told: errors, refusals of the content security policy, exceptions."""
        self.js("1")
        return [event["params"] for event in self.events
                if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")]

    def asked(self):
        """The addresses of all requests."""
        self.js("1")
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        shutil.rmtree(self.directory, ignore_errors=True)
