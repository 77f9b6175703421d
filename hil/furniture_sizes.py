"""Sizes of real furniture: bounding boxes by type, from ProcTHOR's asset database (furniture_data/README.md)."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from onboard.errors import InputError

SIZES_FILE = Path(__file__).parent / "furniture_data" / "sizes.json"
TYPES = (
    "ArmChair", "Box", "Cart", "Chair", "CoffeeTable", "CounterTop", "Desk", "DiningTable", "Dresser", "FloorLamp",
    "Fridge", "GarbageCan", "HousePlant", "ShelvingUnit", "SideTable", "Sofa", "Stool", "TVStand",
)  # fmt: skip
"""Object types that `furniture_kinds.py` takes sizes from."""
CM = 100

Size = tuple[float, float, float]
"""Width, height, depth [m]."""


def derive(database: Path, file: Path = SIZES_FILE) -> None:
    """Write the table of sizes from the asset database. Raises InputError for a file that is none."""
    try:
        assets = json.loads(database.read_text(encoding="utf-8"))
        boxes = {kind: sorted(_size_cm(asset["boundingBox"]) for asset in assets[kind]) for kind in TYPES}
    except OSError as error:
        raise InputError(f"{database}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{database}: not an asset database: {error!r}") from error
    lines = [f"  {json.dumps(kind)}: {json.dumps(rows)}" for kind, rows in boxes.items()]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@functools.cache
def sizes() -> dict[str, tuple[Size, ...]]:
    """Return the sizes of every type [m]."""
    table = json.loads(SIZES_FILE.read_text(encoding="utf-8"))
    return {kind: tuple((w / CM, h / CM, d / CM) for w, h, d in rows) for kind, rows in table.items()}


def _size_cm(box: dict[str, float]) -> tuple[int, int, int]:
    return round(box["x"] * CM), round(box["y"] * CM), round(box["z"] * CM)
