"""Make the pictures of the dashboard's page for README and docs: headless Chromium looks at the tutorial's robot.

    PYTHONPATH=. python .ci/page_pictures.py FOLDER      page-phone.webp (driving, stopped), page-laptop.webp (dark)

The folder of those in the documents is docs/. Map and robot are those of docs/tutorial.md. It needs chromium.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.hil.report.browser import chromium
from tests.onboard.commands.operator.dashboard.test_dashboard_browser import PHONE, Opened
from tests.rigs.machine.waiting import until
from tests.system.test_tutorial import prepared, started

LAPTOP = {"width": 1280, "height": 800}
GAP, QUALITY = 24, 80
DRIVEN = 30
"""Points of the driven path, one every 0.1 m, before the pictures are taken."""
SENT = """async () => {
  const [x, y] = pose(), found = [];
  for (let angle = 0; angle < 6.28; angle += 0.4)
    for (const far of [9, 7, 5]) found.push([x + far * Math.cos(angle), y + far * Math.sin(angle)]);
  for (const [x, y] of found)
    if (await order("goal", { x, y, frame: "map", yaw_deg: null })) return true;
  return false;
}"""
"""Send the first of some places around that the robot accepts."""


def seen(opened: Opened) -> Image.Image:
    """Return the window as the browser shows it."""
    return Image.open(io.BytesIO(opened.page.screenshot())).convert("RGB")


def side_by_side(pictures: list[Image.Image]) -> Image.Image:
    """Return pictures of the same height in one, with a gap that is transparent."""
    wide = sum(picture.width for picture in pictures) + GAP * (len(pictures) - 1)
    whole, x = Image.new("RGBA", (wide, pictures[0].height), (0, 0, 0, 0)), 0
    for picture in pictures:
        whole.paste(picture, (x, 0))
        x += picture.width + GAP
    return whole


def pictures(address: str, browser: Any) -> dict[str, Image.Image]:
    """Return the pictures by their names, of a drive that STOP ends."""
    phone = Opened(browser, address, viewport=PHONE, device_scale_factor=1.5, has_touch=True, is_mobile=True)
    laptop = Opened(browser, address, viewport=LAPTOP, color_scheme="dark")
    phone.shows("scale", "map frame")
    for _ in range(2):
        phone.page.tap("#farther")
        laptop.page.click("#farther")
    assert phone.page.evaluate(SENT), "no goal was accepted"
    until(lambda: laptop.page.evaluate("shape.path.length") > DRIVEN and laptop.text("word") == "navigating", 180.0)
    drives, wide = seen(phone), seen(laptop)
    phone.page.tap("#stop")
    phone.shows("stop", "STOPPED")
    phone.shows("sentence", "e-stop")
    return {"page-phone": side_by_side([drives, seen(phone)]), "page-laptop": wide}


def main() -> None:
    """Write the pictures into a folder."""
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        prepared(Path(place), patch)
        with started(Path(place)) as (address, _, _), chromium() as browser:
            for name, picture in pictures(address, browser).items():
                picture.save(folder / f"{name}.webp", quality=QUALITY, method=6)
                size = (folder / f"{name}.webp").stat().st_size
                sys.stdout.write(f"{name}.webp: {picture.width} x {picture.height}, {size / 1e3:.0f} kB\n")


if __name__ == "__main__":
    main()
