"""Look at pages in a real browser, on a screen and on a phone: reports, the built site, the README, single pictures.

    mkdocs build --strict -d site
    python tools/look_at_pages.py site README.md docs/assets runs/tiny-joint/report.html --output pictures

Of a folder, every .html below it is a page or, where there is none, every .svg; a .md is shown about as GitHub does
(needs the `markdown` of mkdocs). Each page is looked at with 1280 and 390 points of width (`--dark`: and in the dark
scheme), and these are faults:

- wide: the page scrolls sideways (a table or code may scroll inside its own box)
- image: an <img> did not load or is squeezed to nothing; missing: another file that the page asks for is not there
- fetched: the page asks another host for something
- overlap: two texts lie on each other; cut: a text of an SVG is wider than its box or leaves the picture

Prints one line a page and writes one PNG of the whole page for each width and scheme; exit code 1 after a fault. Needs
chromium on the PATH (`apt install chromium`). Not part of the tests, which need no browser.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.server
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

SCREENS = {"screen": (1280, 900), "phone": (390, 844)}
TALLEST = 12_000  # points of a picture's height; Chromium draws no surface above 16,384

GITHUB = """<!DOCTYPE html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><style>
body {{ font: 16px/1.5 sans-serif; max-width: 830px; margin: 0 auto; padding: 24px; overflow-wrap: break-word }}
img {{ max-width: 100% }} code, pre {{ font-size: 85%; background: #8882 }} pre {{ overflow: auto; padding: 16px }}
table {{ display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse }}
td, th {{ border: 1px solid #8888; padding: 6px 13px }}
</style><body>{body}</body>
"""
"""GitHub's measures of a README: text 830 points wide, tables that scroll in their own box."""

LOOK = r"""(async width => {
  const faults = [], root = document.scrollingElement || document.documentElement, svgPage = !document.body;
  const name = text => JSON.stringify(text.trim().replace(/\s+/g, ' ').slice(0, 40));
  if (root.scrollWidth > width && !svgPage) faults.push(`wide: ${root.scrollWidth} of ${width}`);
  for (const image of document.images) {
    image.loading = 'eager';
    await image.decode().catch(() => {});
    const shown = image.getBoundingClientRect().width, source = image.getAttribute('src').slice(0, 60);
    if (!image.naturalWidth || !image.complete) faults.push(`image: ${source} is absent`);
    else if (shown < 16 && shown < image.naturalWidth && image.checkVisibility())
      faults.push(`image: ${source} has no room`);
  }
  await document.fonts.ready;
  for (const motion of document.getAnimations()) try { motion.finish() } catch { /* one without end */ }

  const visible = e => e.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const cut = (a, b) => ({left: Math.max(a.left, b.left), right: Math.min(a.right, b.right),
                          top: Math.max(a.top, b.top), bottom: Math.min(a.bottom, b.bottom)});
  const clips = new Map();  // element -> the part of the page in which its content shows
  const clip = e => {
    if (!e) return {left: -1e6, right: 1e6, top: -1e6, bottom: 1e6};
    if (!clips.has(e)) {
      const style = getComputedStyle(e);
      const outer = style.position === 'fixed' ? clip(null) : clip(e.parentElement);
      const hides = style.overflowX !== 'visible' && e !== document.body && e !== document.documentElement;
      clips.set(e, hides && !(e instanceof SVGElement) ? cut(outer, e.getBoundingClientRect()) : outer);
    }
    return clips.get(e);
  };
  const texts = [];
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, e = node.parentElement;
    if (!node.data.trim() || e.closest('title, desc, style, script, noscript, select') || !visible(e)) continue;
    const range = document.createRange(), svg = e.closest('text');
    range.selectNodeContents(node);
    for (const rect of svg ? [e.getBoundingClientRect()] : range.getClientRects()) {
      const box = cut(rect, clip(e));
      if (box.right > 0 && box.right - box.left > 1 && box.bottom - box.top > 1)
        texts.push({box, owner: svg || e, text: node.data});
    }
  }
  texts.sort((a, b) => a.box.top - b.box.top);
  texts.forEach((a, i) => {
    for (let j = i + 1; j < texts.length && texts[j].box.top < a.box.bottom; j++) {
      const b = texts[j], both = cut(a.box, b.box);
      const high = Math.min(a.box.bottom - a.box.top, b.box.bottom - b.box.top);
      if (a.owner === b.owner || a.owner.contains(b.owner) || b.owner.contains(a.owner)) continue;
      // Boxes of lines have leading and may share a third of their height without a letter on a letter.
      if (both.right - both.left > 1.5 && both.bottom - both.top > high / 3)
        faults.push(`overlap: ${name(a.text)} and ${name(b.text)}`);
    }
  });

  for (const svg of document.querySelectorAll('svg')) {
    if (!svg.querySelector('text') || !visible(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('rect')].map(e => e.getBoundingClientRect());
    for (const text of svg.querySelectorAll('text')) {
      const own = text.getBoundingClientRect();
      const y = (own.top + own.bottom) / 2, xs = [own.left + 1, (own.left + own.right) / 2];
      const around = boxes.filter(b => b.height > own.height && b.top < y && y < b.bottom
                                       && xs.some(x => b.left < x && x < b.right));
      const tight = around.sort((a, b) => a.width * a.height - b.width * b.height)[0] || frame;
      if (own.width && [frame, tight].some(b => own.left < b.left - 1 || own.right > b.right + 1))
        faults.push(`cut: ${name(text.textContent)}`);
    }
  }
  const drawn = root.getBoundingClientRect();
  return JSON.stringify({faults, width: svgPage ? Math.ceil(drawn.width) : width,
                         height: svgPage ? Math.ceil(drawn.height) : root.scrollHeight});
})"""
"""Runs in the page through the debugging protocol, which a page's own ban of scripts does not hinder."""


class Browser:
    """A headless Chromium and its DevTools protocol: JSON messages that end in a zero byte, over two pipes."""

    def __init__(self, chromium: str, profile: str) -> None:
        (theirs_in, self.out), (self.into, theirs_out) = os.pipe(), os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        flags += [f"--user-data-dir={profile}", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]

        def pipes_to_3_and_4() -> None:
            high = [os.dup(fd) for fd in (theirs_in, theirs_out)]
            for fd, place in zip(high, (3, 4), strict=True):
                os.dup2(fd, place)

        self.process = subprocess.Popen(
            [chromium, *flags, "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=pipes_to_3_and_4,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest, self.numbers, self.events = b"", itertools.count(1), list[dict[str, Any]]()
        (page,) = (t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for part in ("Page", "Network"):
            self.ask(f"{part}.enable")

    def message(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = os.read(self.into, 1 << 20)
            if not more:
                raise SystemExit("chromium ended before it answered")
            self.rest += more
        first, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def ask(self, method: str, **values: Any) -> dict[str, Any]:
        """The answer of one command; events that come before it are kept."""
        number = next(self.numbers)
        session = {"sessionId": self.session} if hasattr(self, "session") else {}
        text = json.dumps({"id": number, "method": method, "params": values} | session)
        os.write(self.out, text.encode() + b"\0")
        while (message := self.message()).get("id") != number:
            self.events.append(message)
        if "error" in message:
            raise SystemExit(f"chromium refused {method}: {message['error']['message']}")
        answer: dict[str, Any] = message["result"]
        return answer

    def look(self, address: str, size: tuple[int, int], scheme: str) -> tuple[list[str], bytes]:
        """Faults of a page and its picture as PNG."""
        width, height = size
        phone = width < 600
        metrics = {"width": width, "deviceScaleFactor": 1, "mobile": phone}
        self.ask("Page.navigate", url="about:blank")
        self.ask("Emulation.setDeviceMetricsOverride", height=height, **metrics)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        # The site keeps the scheme of a reader's first visit; each look is a first one.
        self.ask("Storage.clearDataForOrigin", origin=address, storageTypes="all")
        self.events.clear()
        self.ask("Page.navigate", url=address)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())
        found = self.ask("Runtime.evaluate", expression=f"{LOOK}({width})", awaitPromise=True)
        if "exceptionDetails" in found:
            raise SystemExit(f"{address}: {found['result'].get('description', found)}")
        seen = json.loads(found["result"]["value"])
        clip = {"x": 0, "y": 0, "width": seen["width"], "height": min(seen["height"], TALLEST), "scale": 1}
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return [*seen["faults"], *self.requests(address)], base64.b64decode(picture["data"])

    def requests(self, address: str) -> Iterator[str]:
        """Faults of what the page asked for since it was opened."""
        home = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
        for event in self.events:
            values = event.get("params", {})
            url = values.get("request", values.get("response", {})).get("url", "")
            if event.get("method") == "Network.requestWillBeSent":
                if url.startswith("http") and not url.startswith(home):
                    yield f"fetched: {url}"
            elif event.get("method") == "Network.responseReceived" and not url.endswith("/favicon.ico"):
                status = values["response"]["status"]
                if status >= 400:
                    yield f"missing: {url.removeprefix(home)}"

    def close(self) -> None:
        with contextlib.suppress(SystemExit, OSError):
            self.ask("Browser.close")
        self.process.wait(timeout=30)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and a .md as a page."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix != ".md" or not path.is_file():
            return super().do_GET()
        import markdown

        text = markdown.markdown(path.read_text(encoding="utf-8"), extensions=["tables", "fenced_code", "md_in_html"])
        body = GITHUB.format(body=text).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: the output has one line a page."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Address of a server of the folder: pages of a site name some of their files from its root."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def pages_of(place: Path) -> tuple[Path, list[Path]]:
    """The folder to serve, and the pages below it."""
    if place.is_dir():
        return place, sorted(place.rglob("*.html")) or sorted(place.rglob("*.svg"))
    return place.parent, [place]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path, help="HTML, SVG or Markdown files, or folders of them")
    parser.add_argument("--output", type=Path, default=Path("pictures"))
    parser.add_argument("--dark", action="store_true", help="look at each page in the dark scheme too")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        parser.error("there is no chromium on the PATH: install it, for example with `apt install chromium`")
    if absent := [str(place) for place in options.pages if not place.exists()]:
        parser.error(f"{', '.join(absent)}: no such file or folder")
    options.output.mkdir(parents=True, exist_ok=True)
    looked = bad = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(chromium, profile)
        for place in options.pages:
            folder, pages = pages_of(place.resolve())
            with served(folder) as home:
                for page in pages:
                    short = page.relative_to(folder)
                    faults: dict[str, list[str]] = {}
                    for screen, scheme in itertools.product(SCREENS, ["light", "dark"][: 1 + options.dark]):
                        found, png = browser.look(home + quote(short.as_posix()), SCREENS[screen], scheme)
                        name = re.sub(r"\W+", "-", f"{folder.name}/{short.with_suffix('')}")
                        (options.output / f"{name}-{screen}-{scheme}.png").write_bytes(png)
                        for fault in found:
                            faults.setdefault(unquote(fault), []).append(f"{screen} {scheme}")
                    looked, bad = looked + 1, bad + bool(faults)
                    told = "; ".join(f"{fault} ({', '.join(dict.fromkeys(on))})" for fault, on in faults.items())
                    print(f"{place.name if short == Path(place.name) else place / short}: {told or 'ok'}", flush=True)
        browser.close()
    print(f"{looked} pages, {bad} with faults")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
