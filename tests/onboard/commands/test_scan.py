"""`onboard scan`: what it writes, and one clear line for each input that it cannot use."""

from __future__ import annotations

import json
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onboard.commands.scan import read_depth_image, read_depth_png, scan_command
from onboard.config.config import DEFAULT_ROBOT
from onboard.values.errors import InputError
from onboard.values.messages import BINS, DepthFrame

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
REAL = Path(__file__).parents[2] / "data" / "realsense-office" / "depth_40.png"
MOUNTS = """
[cameras.front]
width = 8
height = 6
fx = 10.0
fy = 10.0
cx = 4.0
cy = 3.0
translation_m = [0.2, 0.0, 0.5]
rotation_xyzw = [-0.5, 0.5, -0.5, 0.5]
[cameras.rear]
width = 8
height = 6
fx = 10.0
fy = 10.0
cx = 4.0
cy = 3.0
translation_m = [-0.2, 0.0, 0.5]
rotation_xyzw = [-0.5, -0.5, 0.5, 0.5]
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mounts.toml"
    path.write_text(MOUNTS, encoding="utf-8")
    return path


def save(path: Path, depth: np.ndarray) -> Path:
    Image.fromarray(depth).save(path)
    return path


@pytest.fixture
def depth_png(tmp_path: Path) -> Path:
    """A wall 2 m before an 8x6 camera."""
    return save(tmp_path / "depth.png", np.full((6, 8), 2000, np.uint16))


def test_the_json_holds_the_scan(mounts: Path, depth_png: Path, tmp_path: Path) -> None:
    out = tmp_path / "scan.json"
    scan = scan_command(mounts, [f"front={depth_png}"], json_path=str(out))
    table = json.loads(out.read_text(encoding="utf-8"))
    assert set(table) == {"stamp_ns", "ranges_m", "seen"}
    assert table["stamp_ns"] == 0
    assert len(table["ranges_m"]) == len(table["seen"]) == BINS
    assert (table["ranges_m"][90], table["ranges_m"][0]) == (2.2, None)
    assert (table["seen"][90], table["seen"][0]) == (True, False)
    restored = np.array([math.inf if r is None else r for r in table["ranges_m"]], dtype=np.float32)
    assert np.array_equal(restored, scan.ranges_m)
    assert table["seen"] == scan.seen.tolist()


def test_without_json_a_table_shows_the_nearest_of_each_sector(
    mounts: Path, depth_png: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scan = scan_command(mounts, [f"front={depth_png}"])
    _, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 36
    for number, row in enumerate(rows):
        left, _, right, range_text, *_, seen, _, of = row.split()
        bins = slice(BINS - 5 * (number + 1), BINS - 5 * number)
        nearest_m = scan.ranges_m[bins].min()
        assert (int(left), int(right)) == (180 - 10 * number, 170 - 10 * number)
        assert (int(seen), int(of)) == (scan.seen[bins].sum(), 5)
        expected = f"{nearest_m:.2f}" if math.isfinite(nearest_m) else "free" if scan.seen[bins].any() else "blind"
        assert range_text == expected


def test_a_plot_alone_writes_nothing_else(
    mounts: Path, depth_png: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "scan.png"
    scan_command(mounts, [f"front={depth_png}"], plot_path=plot)
    assert capsys.readouterr().out == ""
    with Image.open(plot) as image:
        assert image.size[0] > 500


def test_two_cameras_are_fused(mounts: Path, depth_png: Path, tmp_path: Path) -> None:
    rear = save(tmp_path / "rear.png", np.full((6, 8), 1000, np.uint16))
    out = str(tmp_path / "scan.json")
    scan = scan_command(mounts, [f"front={depth_png}", f"rear={rear}"], json_path=out)
    assert (scan.ranges_m[90], scan.ranges_m[0], scan.seen[0]) == (np.float32(2.2), np.float32(1.2), True)


def test_a_real_frame(tmp_path: Path) -> None:
    text = (DEFAULT_ROBOT / "mounts.toml").read_text(encoding="utf-8")
    for old, new in [("width = 80", "width = 640"), ("height = 60", "height = 480"), ("= 40.0", "= 384.0")]:
        text = text.replace(old, new)
    mounts = tmp_path / "mounts.toml"
    mounts.write_text(text.replace("cx = 39.5", "cx = 320.0").replace("cy = 29.5", "cy = 240.0"), encoding="utf-8")
    scan = scan_command(mounts, [f"rear={REAL}"], json_path=str(tmp_path / "scan.json"))
    assert np.isfinite(scan.ranges_m).sum() > 20
    assert scan.seen[np.isfinite(scan.ranges_m)].all()


# Recordings are read by the driver; which frame is asked for, and what becomes of it, is decided here.


@pytest.mark.parametrize("suffix", [".db3", ".bag", ".DB3"])
def test_a_recording_gives_the_frame_asked_for(
    mounts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    requests = []

    def read(path: Path, index: int) -> DepthFrame:
        requests.append((path, index))
        return DepthFrame("", index + 1, 77, np.full((6, 8), 1000, np.uint16))

    driver = pytest.importorskip("onboard.drivers.realsense.device")
    monkeypatch.setattr(driver, "read_depth_frame", read)
    recording = tmp_path / f"session{suffix}"
    scan = scan_command(mounts, [f"front={recording}"], frame=3, json_path=str(tmp_path / "scan.json"))
    assert requests == [(recording, 3)]
    assert (scan.stamp_ns, scan.ranges_m[90]) == (77, np.float32(1.2))


# Bad input


def png(tmp_path: Path, mode: str) -> str:
    path = tmp_path / "other.png"
    Image.new(mode, (8, 6)).save(path)
    return str(path)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def header(width: int, height: int, bits: int = 16, color: int = 0) -> bytes:
    return PNG_SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0))


END = chunk(b"IEND", b"")
BAD_BYTES = [
    ("empty", b"", "cannot be decoded"),
    ("text", b"ranges_m", "cannot be decoded"),
    ("signature only", PNG_SIGNATURE, "cannot be decoded"),
    ("no image", header(8, 6) + END, "cannot be decoded"),
    ("image cut short", header(8, 6) + chunk(b"IDAT", zlib.compress(b"\0" * 20)) + END, "cannot be decoded"),
    ("not compressed", header(8, 6) + chunk(b"IDAT", b"abcdefgh") + END, "cannot be decoded"),
    ("header missing", PNG_SIGNATURE + chunk(b"IDAT", b"") + END, "cannot be decoded"),
    ("header too short", PNG_SIGNATURE + chunk(b"IHDR", b"\0" * 5) + END, "cannot be decoded"),
    ("decompression bomb", header(100_000, 100_000) + chunk(b"IDAT", b"") + END, "cannot be decoded"),
    ("too large", header(5000, 1) + chunk(b"IDAT", b"") + END, "PNG is 5000x1, limit 4096x4096"),
    ("no pixels", header(0, 6) + chunk(b"IDAT", b"") + END, "cannot be decoded"),
    ("16-bit RGB", header(8, 6, 16, 2) + chunk(b"IDAT", b"") + END, "must be 16-bit greyscale"),
]


@pytest.mark.parametrize(("data", "words"), [pytest.param(*row[1:], id=row[0]) for row in BAD_BYTES])
def test_a_damaged_png_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "bad.png"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_depth_png(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


DEPTH = np.arange(12, dtype=np.uint16).reshape(3, 4) * 5000
BIG_ENDIAN = DEPTH.astype(">u2").tobytes()


@pytest.mark.parametrize("head", ["P5\n4 3\n65535\n", "P5\n# by a camera\n4 3\n# 1 mm\n65535\n", "P5 4 3 60000 "])
def test_a_pgm_is_read_with_the_values_that_are_in_it(tmp_path: Path, head: str) -> None:
    """The highest value is a bound, by which nothing is scaled."""
    path = tmp_path / "depth.PGM"
    path.write_bytes(head.encode() + BIG_ENDIAN)
    assert np.array_equal(read_depth_image(path), DEPTH)
    assert np.array_equal(read_depth_image(save(tmp_path / "depth.png", DEPTH)), DEPTH)


BAD_ARGUMENTS = [
    # cameras, frame, words
    ([], 0, ["--camera", "at least one"]),
    (["front"], 0, ["--camera front", "NAME=FILE"]),
    (["=depth.png"], 0, ["NAME=FILE"]),
    (["front="], 0, ["NAME=FILE"]),
    (["left={depth}"], 0, ["camera left", "mounts.toml", "front, rear"]),
    (["front={depth}", "front={depth}"], 0, ["camera front", "twice"]),
    (["front=missing.png"], 0, ["missing.png", "cannot be read"]),
    (["front={large}"], 0, ["large.png", "camera front", "is 10x12", "8x6", "mounts.toml"]),
    (["front={depth}"], -1, ["--frame -1", "0 or more"]),
    (["front={depth}"], 2, ["--frame 2", "recordings"]),
]


@pytest.mark.parametrize(("cameras", "frame", "words"), BAD_ARGUMENTS)
def test_a_wrong_argument_is_named_in_one_line(
    mounts: Path, depth_png: Path, tmp_path: Path, cameras: list[str], frame: int, words: list[str]
) -> None:
    large = save(tmp_path / "large.png", np.zeros((12, 10), np.uint16))
    with pytest.raises(InputError) as caught:
        scan_command(mounts, [c.format(depth=depth_png, large=large) for c in cameras], frame=frame)
    line = str(caught.value)
    assert "\n" not in line
    for word in words:
        assert word in line


# ---- The picture of a scan
