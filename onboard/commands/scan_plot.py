"""A picture of one scan from above: forward is up, one wedge a bin."""

from __future__ import annotations

import math

from PIL import Image, ImageDraw, ImageFont

from onboard.values.messages import BIN_DEG, BINS, Scan

Point = tuple[float, float]

SMOOTH = 3
"""Factor of oversampling, which smooths the edges."""
WIDTH_PX, HEIGHT_PX = 900, 1010
CENTER_PX = (450, 500)
RADIUS_PX = 400
"""Of the outermost ring."""
OBSTACLE_PX = 7
RING_STEPS_M = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
MAX_RINGS = 6
MIN_EXTENT_M = 1.0

PAPER = "#ffffff"
INK = "#1f2933"
FAINT_INK = "#7b8794"
GRID = "#c3ccd5"
BLIND = "#aab4bf"
HATCH = "#8d99a6"
FREE = "#d8ecdf"
EMPTY = "#dfecf8"
OBSTACLE = "#c8321f"
ROBOT = "#1f4e79"


def draw_scan(scan: Scan, far_m: float) -> Image.Image:
    """Return the picture. The outermost ring is at the farthest range, or at `far_m` when nothing was seen."""
    ranges_m = [float(range_m) for range_m in scan.ranges_m]
    extent_m, step_m = _rings(max((r for r in ranges_m if math.isfinite(r)), default=far_m))
    image = Image.new("RGB", (WIDTH_PX * SMOOTH, HEIGHT_PX * SMOOTH), PAPER)
    _draw_wedges(image, scan, ranges_m, RADIUS_PX / extent_m)
    draw = ImageDraw.Draw(image)
    _draw_grid(draw, extent_m, step_m)
    _draw_obstacles(draw, ranges_m, RADIUS_PX / extent_m)
    _draw_robot(draw)
    _draw_words(image, scan, ranges_m)
    return image.resize((WIDTH_PX, HEIGHT_PX), Image.Resampling.LANCZOS)


def _rings(farthest_m: float) -> tuple[float, float]:
    """Return the radius of the outermost ring and the distance between rings [m]."""
    farthest_m = max(farthest_m, MIN_EXTENT_M)
    step_m = next((step for step in RING_STEPS_M if farthest_m <= MAX_RINGS * step), farthest_m / MAX_RINGS)
    return math.ceil(farthest_m / step_m) * step_m, step_m


def _at(azimuth_deg: float, radius_px: float) -> Point:
    """Return the pixel at a bearing (0 is up, left positive) and distance from the robot."""
    azimuth = math.radians(azimuth_deg)
    x, y = CENTER_PX[0] - radius_px * math.sin(azimuth), CENTER_PX[1] - radius_px * math.cos(azimuth)
    return x * SMOOTH, y * SMOOTH


def _wedge(i: int, inner_px: float, outer_px: float) -> list[Point]:
    """Return the four corners of bin i between two distances."""
    right = i * BIN_DEG - 180.0
    left = right + BIN_DEG
    return [_at(right, inner_px), _at(right, outer_px), _at(left, outer_px), _at(left, inner_px)]


def _hatch(width_px: int, height_px: int) -> Image.Image:
    """Return a tile of diagonal lines on the colour of blind bins."""
    tile = Image.new("RGB", (width_px, height_px), BLIND)
    draw = ImageDraw.Draw(tile)
    for x in range(-height_px, width_px, 9 * SMOOTH):
        draw.line([(x, height_px), (x + height_px, 0)], fill=HATCH, width=SMOOTH)
    return tile


def _draw_wedges(image: Image.Image, scan: Scan, ranges_m: list[float], px_per_m: float) -> None:
    draw = ImageDraw.Draw(image)
    blind = Image.new("1", image.size)
    mask = ImageDraw.Draw(blind)
    for i in range(BINS):
        if not scan.seen[i]:
            mask.polygon(_wedge(i, 0.0, RADIUS_PX), fill=1)
        elif math.isinf(ranges_m[i]):
            draw.polygon(_wedge(i, 0.0, RADIUS_PX), fill=EMPTY)
        else:
            draw.polygon(_wedge(i, 0.0, ranges_m[i] * px_per_m), fill=FREE)
    image.paste(_hatch(*image.size), mask=blind)


def _draw_grid(draw: ImageDraw.ImageDraw, extent_m: float, step_m: float) -> None:
    for azimuth_deg in range(0, 360, 30):
        draw.line([_at(azimuth_deg, 0.0), _at(azimuth_deg, RADIUS_PX)], fill=GRID, width=SMOOTH)
        label = f"{azimuth_deg if azimuth_deg <= 180 else azimuth_deg - 360:+d}°" if azimuth_deg % 180 else ""
        label = label or ("0°" if azimuth_deg == 0 else "±180°")
        _text(draw, _at(azimuth_deg, RADIUS_PX + 22), label, 15, FAINT_INK, "mm")
    for ring in range(1, round(extent_m / step_m) + 1):
        radius_px = ring * step_m / extent_m * RADIUS_PX
        (left, bottom), (right, top) = _at(135, radius_px * math.sqrt(2)), _at(-45, radius_px * math.sqrt(2))
        draw.ellipse([left, top, right, bottom], outline=GRID, width=SMOOTH)
        _text(draw, _at(-15, radius_px), f"{ring * step_m:g} m", 14, FAINT_INK, "mm", halo=True)


def _draw_obstacles(draw: ImageDraw.ImageDraw, ranges_m: list[float], px_per_m: float) -> None:
    for i, range_m in enumerate(ranges_m):
        if math.isfinite(range_m):
            draw.polygon(_wedge(i, range_m * px_per_m, range_m * px_per_m + OBSTACLE_PX), fill=OBSTACLE)


def _draw_robot(draw: ImageDraw.ImageDraw) -> None:
    """Draw an arrow that points ahead; a sign, not to scale."""
    draw.polygon([_at(0, 17), _at(140, 14), _at(180, 6), _at(-140, 14)], fill=ROBOT, outline=PAPER, width=SMOOTH)


def _draw_words(image: Image.Image, scan: Scan, ranges_m: list[float]) -> None:
    draw = ImageDraw.Draw(image)
    finite = [i for i in range(BINS) if math.isfinite(ranges_m[i])]
    _text(draw, (32 * SMOOTH, 24 * SMOOTH), "Fused scan", 26, INK, "la")
    if finite:
        nearest = min(finite, key=ranges_m.__getitem__)
        middle_deg = (nearest + 0.5) * BIN_DEG - 180.0
        words = f"nearest {ranges_m[nearest]:.2f} m at {middle_deg:+.0f}°"
    else:
        words = "no obstacle"
    _text(draw, ((WIDTH_PX - 32) * SMOOTH, 31 * SMOOTH), words, 18, INK, "ra")
    blind, empty = BINS - int(scan.seen.sum()), int(scan.seen.sum()) - len(finite)
    legend = [
        (f"obstacle ({len(finite)} bins)", OBSTACLE),
        ("free up to the return", FREE),
        (f"nothing seen ({empty})", EMPTY),
        (f"blind ({blind})", BLIND),
    ]
    for column, (label, color) in enumerate(legend):
        left, top = (48 + 214 * column) * SMOOTH, (HEIGHT_PX - 46) * SMOOTH
        box = [left, top, left + 26 * SMOOTH, top + 18 * SMOOTH]
        if color == BLIND:
            image.paste(_hatch(26 * SMOOTH, 18 * SMOOTH), (left, top))
            draw.rectangle(box, outline=FAINT_INK, width=SMOOTH)
        else:
            draw.rectangle(box, fill=color, outline=FAINT_INK, width=SMOOTH)
        _text(draw, (left + 36 * SMOOTH, top + 9 * SMOOTH), label, 16, INK, "lm")


def _text(
    draw: ImageDraw.ImageDraw, at: Point, text: str, size_px: int, color: str, anchor: str, halo: bool = False
) -> None:
    font = ImageFont.load_default(size_px * SMOOTH)
    draw.text(at, text, font=font, fill=color, anchor=anchor, stroke_width=2 * SMOOTH if halo else 0, stroke_fill=PAPER)
