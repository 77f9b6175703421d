"""Kinds of furniture, modelled as sets of solid boxes.

Coordinates are relative to the item's centre: u along the width, v from back to front, z up from the floor [m].
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from onboard.values.errors import InputError

# ---- Sizes of real furniture: bounding boxes by type, from ProcTHOR's asset database (furniture_data/README.md)

SIZES_FILE = Path(__file__).parent / "furniture_data" / "sizes.json"
TYPES = (
    "ArmChair", "Box", "Cart", "Chair", "CoffeeTable", "CounterTop", "Desk", "DiningTable", "Dresser", "FloorLamp",
    "Fridge", "GarbageCan", "HousePlant", "ShelvingUnit", "SideTable", "Sofa", "Stool", "TVStand",
)  # fmt: skip
"""Object types in the table of sizes."""
CM = 100

Size = tuple[float, float, float]
"""Width, height, depth [m]."""


def derive(database: Path, file: Path = SIZES_FILE) -> None:
    """Write the table of sizes from the asset database. Raises InputError for an invalid database file."""
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


TOP_M, BOARD_M, SHADE_M = 0.04, 0.03, 0.3
"""Thickness of a tabletop, thickness of a shelf board, height of a lampshade."""
INSET_M = 0.03
"""Distance of legs from the edges."""
SEAT_M, SEAT_THICK_M, BACK_M, ARM_M = 0.45, 0.06, 0.08, 0.15
"""Height of a seat, thickness of a chair's seat and back, width of a sofa's arm."""
UNDER_M, SOFA_BACK_M, ARM_HEIGHT_M = 0.12, 0.2, 0.6
"""Clearance under a sofa, thickness of its back, height of its arms."""
FOOT_M = 0.015
"""Height of a lamp's flat foot: below the obstacle threshold of a scan and the ground clearance of a body."""
OVERHANG_M = 0.25
"""Overhang of a counter's top at the front."""
BOARD_STEP_M, MOST_BOARDS = 0.4, 4
TUCKED = 0.35
"""Fraction of a chair's depth under its table."""
PLACE_M = 0.75
"""Width of table edge per chair."""
POT, CROWN = 0.7, 0.3
"""Width of a plant's pot relative to the plant's width, and height of the lowest leaves relative to its height."""
LAMP_FOOT, LOW_SEAT, LOWEST_POLE = 0.6, 0.6, 0.5
"""Fractions: lamp foot of the lamp's width, seat of a low chair's height, lowest pole of the lamp's height."""
TROLLEY_BOARDS = (0.25, 0.75)
"""Heights of the boards as fractions of a trolley's height."""


class Part(NamedTuple):
    """A solid box [m]. A box of zero width and depth is a leg or pole, one cell thick."""

    u0: float
    v0: float
    u1: float
    v1: float
    low: float
    high: float
    material: str


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of furniture, or a group: width and depth [m] of the bounding box of all parts."""

    width_m: float
    depth_m: float
    parts: tuple[Part, ...]


Build = Callable[[float, float, float, float], Item]
"""(width, height, depth [m], random number in [0, 1) for further choices) -> the item."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of `KINDS`.

    share:   relative frequency among the drawn items
    types:   object types for drawing sizes
    at_wall: True for items with their back to a wall, False for free-standing items at any angle
    least_m, most_m: limits on the drawn width, height, depth
    """

    name: str
    share: float
    types: tuple[str, ...]
    build: Build
    at_wall: bool
    least_m: Size = (0.0, 0.0, 0.0)
    most_m: Size = (3.0, 2.3, 2.0)

    def sizes_m(self) -> list[Size]:
        """Return the sizes of this kind's types within its limits."""
        return [
            size
            for kind in self.types
            for size in sizes()[kind]
            if all(a <= b <= c for a, b, c in zip(self.least_m, size, self.most_m, strict=True))
        ]


def solid(material: str) -> Build:
    """Return the builder of a plain box."""

    def build(w: float, h: float, d: float, _: float) -> Item:
        return Item(w, d, (_box(w, d, 0.0, h, material),))

    return build


def table(w: float, h: float, d: float, _: float = 0.0) -> Item:
    """Return a top on four thin legs."""
    return Item(w, d, (_box(w, d, h - TOP_M, h, "wood"), *_legs(w, d, h - TOP_M)))


def chair(w: float, h: float, d: float, _: float = 0.0) -> Item:
    """Return a seat and a back on four thin legs."""
    seat = min(SEAT_M, LOW_SEAT * h)
    back = Part(-w / 2, -d / 2, w / 2, -d / 2 + BACK_M, seat, h, "fabric")
    return Item(w, d, (_box(w, d, seat - SEAT_THICK_M, seat, "fabric"), back, *_legs(w, d, seat)))


def stool(w: float, h: float, d: float, _: float) -> Item:
    """Return a seat on four thin legs."""
    return Item(w, d, (_box(w, d, h - SEAT_THICK_M, h, "plastic"), *_legs(w, d, h - SEAT_THICK_M)))


def sofa(w: float, h: float, d: float, _: float) -> Item:
    """Return a seat, a back and two arms on short legs."""
    arm = min(ARM_HEIGHT_M, h)
    body = _box(w, d, UNDER_M, min(SEAT_M, h), "fabric")
    back = Part(-w / 2, -d / 2, w / 2, -d / 2 + SOFA_BACK_M, UNDER_M, h, "fabric")
    left = Part(-w / 2, -d / 2, -w / 2 + ARM_M, d / 2, UNDER_M, arm, "fabric")
    right = Part(w / 2 - ARM_M, -d / 2, w / 2, d / 2, UNDER_M, arm, "fabric")
    return Item(w, d, (body, back, left, right, *_legs(w, d, UNDER_M)))


def shelf(w: float, h: float, d: float, _: float) -> Item:
    """Return boards between two thin sides, without a back."""
    count = min(MOST_BOARDS, max(2, round(h / BOARD_STEP_M) + 1))
    heights = [UNDER_M + step * (h - UNDER_M - BOARD_M) / (count - 1) for step in range(count)]
    boards = [_box(w, d, low, low + BOARD_M, "wood") for low in heights]
    u = w / 2 - INSET_M
    return Item(w, d, (*boards, *(Part(side, -d / 2, side, d / 2, 0.0, h, "wood") for side in (-u, u))))


def counter(w: float, h: float, d: float, _: float) -> Item:
    """Return a cupboard under a top with an overhang at the front."""
    base = Part(-w / 2, -d / 2, w / 2, d / 2 - OVERHANG_M, 0.0, h - TOP_M, "wood")
    return Item(w, d, (base, _box(w, d, h - TOP_M, h, "plastic")))


def trolley(w: float, h: float, d: float, _: float) -> Item:
    """Return two boards on four thin posts."""
    boards = [_box(w, d, part * h, part * h + BOARD_M, "metal") for part in TROLLEY_BOARDS]
    return Item(w, d, (*boards, *_legs(w, d, h)))


def lamp(w: float, h: float, d: float, _: float) -> Item:
    """Return a shade on a thin pole with a flat foot."""
    shade, foot = _box(w, d, h - SHADE_M, h, "fabric"), _box(LAMP_FOOT * w, LAMP_FOOT * d, 0.0, FOOT_M, "metal")
    return Item(w, d, (shade, foot, Part(0.0, 0.0, 0.0, 0.0, 0.0, h, "metal")))


def pole(_w: float, h: float, _d: float, chance: float) -> Item:
    """Return a thin pole, waist-high to man-high, as of a coat stand or a barrier."""
    return Item(
        BACK_M, BACK_M, (Part(0.0, 0.0, 0.0, 0.0, 0.0, h * (LOWEST_POLE + (1.0 - LOWEST_POLE) * chance), "metal"),)
    )


def plant(w: float, h: float, d: float, _: float) -> Item:
    """Return leaves over a narrower pot."""
    pot = _box(POT * w, POT * d, 0.0, CROWN * h, "ceramic")
    return Item(w, d, (pot, _box(w, d, CROWN * h, h, "plant")))


def desk(w: float, h: float, d: float, chance: float) -> Item:
    """Return a table with a tucked-in chair at its front."""
    seat = chair(*_drawn("Chair", chance))
    under = TUCKED * seat.depth_m
    out = seat.depth_m - under
    parts = (*_moved(table(w, h, d).parts, 0.0, -out / 2), *_moved(_turned(seat.parts), 0.0, (d - under) / 2))
    return Item(max(w, seat.width_m), d + out, parts)


def table_with_chairs(w: float, h: float, d: float, chance: float) -> Item:
    """Return a table with tucked-in chairs along both long sides."""
    seat = chair(*_drawn("Chair", chance))
    out = (1.0 - TUCKED) * seat.depth_m
    count = max(1, int(w / PLACE_M))
    parts = list(table(w, h, d).parts)
    for index in range(count):
        u = (index + 0.5) * w / count - w / 2
        v = d / 2 + out - seat.depth_m / 2
        parts += _moved(_turned(seat.parts), u, v)
        parts += _moved(seat.parts, u, -v)
    return Item(w, d + 2 * out, tuple(parts))


KINDS = (
    Kind("desk with chair", 18, ("Desk",), desk, True, (0.8, 0.6, 0.4), (2.3, 0.95, 1.0)),
    Kind("shelf", 12, ("ShelvingUnit",), shelf, True, (0.4, 0.6, 0.15)),
    Kind("cabinet", 9, ("Dresser", "TVStand"), solid("wood"), True, (0.5, 0.4, 0.25), (2.3, 1.5, 0.8)),
    Kind("sofa", 4, ("Sofa",), sofa, True, (1.5, 0.6, 0.6), (2.6, 1.2, 1.2)),
    Kind("armchair", 3, ("ArmChair",), sofa, True, (0.55, 0.6, 0.6), (1.2, 1.3, 1.1)),
    Kind("counter", 4, ("CounterTop",), counter, True, (1.2, 0.6, 0.6), (2.5, 1.1, 1.0)),
    Kind("fridge", 1, ("Fridge",), solid("metal"), True),
    Kind("bin", 6, ("GarbageCan",), solid("plastic"), True),
    Kind("plant", 5, ("HousePlant",), plant, True, (0.2, 0.45, 0.15)),
    Kind("table with chairs", 12, ("DiningTable",), table_with_chairs, False, (0.7, 0.6, 0.6), (2.3, 0.9, 1.3)),
    Kind("table", 4, ("DiningTable", "Desk"), table, False, (0.7, 0.6, 0.4), (2.3, 0.95, 1.3)),
    Kind("low table", 3, ("CoffeeTable", "SideTable"), table, False, (0.3, 0.3, 0.3), (1.5, 0.7, 1.1)),
    Kind("chair", 7, ("Chair",), chair, False, (0.3, 0.65, 0.3)),
    Kind("stool", 2, ("Stool",), stool, False),
    Kind("box", 4, ("Box",), solid("cardboard"), False),
    Kind("trolley", 1, ("Cart",), trolley, False),
    Kind("lamp", 3, ("FloorLamp",), lamp, False, (0.2, 1.5, 0.2)),
    Kind("pole", 2, ("FloorLamp",), pole, False, (0.2, 1.5, 0.2)),
)
"""Furniture of an office. The shares are our choice; the sizes are measured."""


def _box(w: float, d: float, low: float, high: float, material: str) -> Part:
    return Part(-w / 2, -d / 2, w / 2, d / 2, low, high, material)


def _legs(w: float, d: float, high: float) -> list[Part]:
    u, v = max(w / 2 - INSET_M, 0.0), max(d / 2 - INSET_M, 0.0)
    return [Part(a, b, a, b, 0.0, high, "metal") for a in (-u, u) for b in (-v, v)]


def _moved(parts: tuple[Part, ...], u: float, v: float) -> tuple[Part, ...]:
    return tuple(p._replace(u0=p.u0 + u, v0=p.v0 + v, u1=p.u1 + u, v1=p.v1 + v) for p in parts)


def _turned(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts rotated by 180 deg about the origin."""
    return tuple(p._replace(u0=-p.u1, v0=-p.v1, u1=-p.u0, v1=-p.v0) for p in parts)


def _drawn(kind: str, chance: float) -> Size:
    """Return the size of a type, selected by a number in [0, 1)."""
    of_kind = sizes()[kind]
    return of_kind[int(chance * len(of_kind))]
