"""Look at reports in a real browser: pictures of each page on a screen and on a phone, light and dark, and the width
that a phone would have to scroll.

    python tools/look_at_report.py runs/tiny-joint/report.html --output pictures

Needs chromium on the PATH. No part of the tests: tests/unit/evaluation/test_report_arms.py has the same check of the
width. Exit code 1 if a page is wider than the phone.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCREENS = {"screen": (1280, 2400), "phone": (390, 3200)}
DARK, LIGHT = 0, 1  # Chromium's PreferredColorScheme

FRAME = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<iframe style="width:{width}px;height:{height}px;border:0"></iframe>
<textarea hidden>{page}</textarea><script>
const f = document.querySelector('iframe');
f.onload = () => {{ const d = f.contentDocument.scrollingElement; const e = document.createElement('p');
  e.textContent = 'width ' + d.scrollWidth + ' of ' + d.clientWidth + ' height ' + d.scrollHeight;
  document.body.append(e); }};
f.srcdoc = document.querySelector('textarea').value;
</script></body>
"""
"""The page forbids scripts to itself, so that another page holds it and measures; a window of Chromium's is never
narrower than 500 points, a frame is."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=Path("pictures"))
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        parser.error("there is no chromium on the PATH")
    options.output.mkdir(parents=True, exist_ok=True)
    wide = 0
    for page in options.pages:
        text = page.read_text(encoding="utf-8").replace("&", "&amp;").replace("<", "&lt;")
        for screen, (width, height) in SCREENS.items():
            with tempfile.TemporaryDirectory() as folder:
                frame = Path(folder) / "frame.html"
                frame.write_text(FRAME.format(width=width, height=height, page=text), encoding="utf-8")
                base = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
                base += [f"--user-data-dir={folder}/profile", "--virtual-time-budget=10000"]
                base += [f"--window-size={max(width, 500)},{height}"]
                for scheme, number in (("light", LIGHT), ("dark", DARK)):
                    target = (options.output / f"{page.parent.name}-{screen}-{scheme}.png").resolve()
                    look = [f"--blink-settings=preferredColorScheme={number}", f"--screenshot={target}"]
                    subprocess.run([*base, *look, frame.as_uri()], check=True, capture_output=True)
                dom = subprocess.run([*base, "--dump-dom", frame.as_uri()], capture_output=True, text=True).stdout
            found = re.search(r"<p>width (\d+) of (\d+) height (\d+)</p>", dom)
            if found is None:
                parser.error(f"{page} could not be measured")
            own, visible, tall = map(int, found.groups())
            wide += own > visible
            print(f"{page} on a {screen} of {width}: {own} wide{' (TOO WIDE)' * (own > visible)}, {tall} high")
    return int(wide > 0)


if __name__ == "__main__":
    sys.exit(main())
