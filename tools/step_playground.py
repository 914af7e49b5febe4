"""Step through playground pages in a real browser, by keys, buttons, slider and address, on a screen and on a phone.

    countdown-selfplay playground runs/tiny-joint
    python tools/step_playground.py runs/tiny-joint/playground.html --output pictures

Of each page every round is shown once by the right arrow, and these are faults: a round whose heading is not the next
one's, or that shows no text of its samples; a key, button, slider or address that does not lead where it says; an
element that a text of a model became; whatever tools/look_at_pages.py calls a fault, in the first, the middle and the
last round, of which it writes pictures. Exit code 1 after a fault. Needs chromium, and is no part of the tests.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

from tools.look_at_pages import SCREENS, Browser, served

MOST = 200  # rounds of a page that are stepped through by key

KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35}


class Page:
    """A playground page in the browser."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def value(self, expression: str) -> Any:
        """Of an expression in the page; it may name `data`, which the page's script has."""
        # After a turn of the page's own events, such as that of a new address.
        wait = "new Promise(done => setTimeout(done))"
        found = self.browser.ask(
            "Runtime.evaluate", expression=f"{wait}.then(() => JSON.stringify({expression}))", awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise SystemExit(f"{expression}: {found['result'].get('description', found)}")
        return json.loads(found["result"]["value"])

    @property
    def here(self) -> str:
        return str(self.value("document.getElementById('here').textContent"))

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.browser.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def click(self, name: str) -> None:
        """With the mouse, in the middle of the element."""
        x, y = self.value(
            f"(e => [e.left + e.width / 2, e.top + e.height / 2])(document.getElementById('{name}')"
            ".getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def stepped(page: Page) -> Iterator[str]:
    """Faults of one page that is open."""
    names = [f"{page.value('data.word')} {number}" for number in page.value("rounds.map(r => r.round)")]
    if page.here != names[0]:
        yield f"it begins with {page.here}, not {names[0]}"
    for name in names[:MOST]:
        if page.here != name:
            yield f"{page.here} is shown for {name}"
        texts = page.value("document.querySelectorAll('#round pre, #round .moves li').length")
        if not texts:
            yield f"{name} shows no text"
        page.press("ArrowRight")
    for what, do, wanted in (
        ("Home", lambda: page.press("Home"), names[0]),
        ("left arrow at the first", lambda: page.press("ArrowLeft"), names[0]),
        ("End", lambda: page.press("End"), names[-1]),
        ("right arrow at the last", lambda: page.press("ArrowRight"), names[-1]),
        ("button first", lambda: page.click("first"), names[0]),
        ("button next", lambda: page.click("next"), names[:2][-1]),
        ("button last", lambda: page.click("last"), names[-1]),
        ("button back", lambda: page.click("back"), names[-2:][0]),
        ("slider in the middle", lambda: page.click("slider"), None),
    ):
        do()
        if wanted is None:
            middle = names.index(page.here)
            if abs(middle - (len(names) - 1) / 2) > 1 + len(names) / 50:
                yield f"{what} leads to {page.here}"
        elif page.here != wanted:
            yield f"{what} leads to {page.here}, not {wanted}"
    time.sleep(0.3)  # an address follows when the steps have ended
    if len(names) > 1 and (address := page.value("location.hash")) != f"#round-{page.here.split()[1]}":
        yield f"{page.here} has the address {address!r}"
    page.value(f"(location.hash = '#round-{names[0].split()[1]}', 0)")
    if page.here != names[0]:
        yield f"the address of {names[0]} leads to {page.here}"
    started = page.value("document.querySelectorAll('#round script, #round img, #round a, #round b *').length")
    if started:
        yield f"{started} elements were made of texts"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path, help="files that `countdown-selfplay playground` wrote")
    parser.add_argument("--output", type=Path, default=Path("pictures"))
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        parser.error("there is no chromium on the PATH: install it, for example with `apt install chromium`")
    if absent := [str(path) for path in options.pages if not path.is_file()]:
        parser.error(f"{', '.join(absent)}: no such file")
    options.output.mkdir(parents=True, exist_ok=True)
    bad = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(chromium, profile)
        page = Page(browser)
        for path in options.pages:
            faults: list[str] = []
            with served(path.resolve().parent) as home:
                address = home + quote(path.name)
                for screen, size in SCREENS.items():
                    faults += [f"{fault} ({screen})" for fault in browser.look(address, size, "light")[0]]
                    faults += [f"{fault} ({screen})" for fault in stepped(page)]
                    rounds = page.value("rounds.map(r => r.round)")
                    for place, scheme in ((0, "light"), (len(rounds) // 2, "dark"), (-1, "light")):
                        name = f"{path.resolve().parent.name}-{path.stem}-round-{rounds[place]}-{screen}-{scheme}"
                        found, png = browser.look(f"{address}#round-{rounds[place]}", size, scheme)
                        (options.output / f"{name}.png").write_bytes(png)
                        faults += [f"{fault} ({name})" for fault in found]
            bad += bool(faults)
            print(f"{path}: {len(rounds)} rounds, {'; '.join(dict.fromkeys(faults)) or 'ok'}", flush=True)
        browser.close()
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
