"""Map images of every kind, against nav2's map_io.cpp written here pixel by pixel, or refused.

The files are written without Pillow, so that their pixels are known. What GraphicsMagick 1.3.40 makes of them was
compared once: it decodes only kinds of `UNSURE` otherwise than here.
"""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hil.maps.load import free_cells
from onboard.perception.building.map_image import RosMapTable, occupied_cells, read_map_image, speed_limits
from onboard.values.errors import InputError

ROWS, COLUMNS = 8, 16
RNG = np.random.default_rng(5)
THRESHOLDS = {"free_thresh": 0.196, "occupied_thresh": 0.65}


def jazzy(pixel, has_alpha, mode, negate):
    """Return a cell as nav2 since Jazzy: luma in 8 bits, pixels that are not opaque unknown. pixel: 16 bits each."""
    red, green, blue, alpha = (int(one) for one in pixel)
    grey = int(0.299 * red + 0.587 * green + 0.114 * blue + 0.5 + 1e-6) // 257
    if mode == "raw":
        return grey if grey <= 100 else -1
    if has_alpha and alpha < 65535:
        return -1
    return by_threshold(grey / 255 if negate else 1 - grey / 255, mode)


def humble(pixel, has_alpha, mode, negate):
    """Return a cell as nav2 of Humble: the mean of the colours, in mode trinary of three colours and the opacity."""
    red, green, blue, alpha = (int(one) for one in pixel)
    channels = [red, green, blue, alpha] if mode == "trinary" and has_alpha else [red, green, blue]
    shade = sum(channels) / len(channels) / 65535
    if mode == "raw":
        return round(shade * 255) if round(shade * 255) <= 100 else -1
    if mode == "scale" and has_alpha and alpha < 65535:
        return -1
    return by_threshold(shade if negate else 1 - shade, mode)


def by_threshold(occupied, mode):
    low, high = THRESHOLDS.values()
    if occupied > high:
        return 100
    if occupied < low:
        return 0
    return round((occupied - low) / (high - low) * 100) if mode == "scale" else -1


def png(kind: int, bits: int, rows: list[bytes], *chunks: tuple[bytes, bytes]) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", COLUMNS, ROWS, bits, kind, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = [(b"IHDR", head), *chunks, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def bmp(bits: int, compression: int, data: bytes, masks: bytes = b"", head_bytes: int = 40) -> bytes:
    head = struct.pack("<IiiHHIIiiII", head_bytes, COLUMNS, -ROWS, 1, bits, compression, len(data), 2835, 2835, 0, 0)
    head += masks + b"\0" * (head_bytes - 40 - len(masks))
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(data), 0, 0, 14 + len(head)) + head + data


def packed(values: np.ndarray, bits: int) -> list[bytes]:
    """Return rows of values of 1, 2, 4 or 8 bits."""
    parts = ((values[..., None] >> np.arange(bits - 1, -1, -1)) & 1).reshape(ROWS, -1).astype(np.uint8)
    return [np.packbits(row).tobytes() for row in parts]


def rgba(grey: np.ndarray, alpha: np.ndarray | None = None) -> np.ndarray:
    return np.stack([grey, grey, grey, np.full_like(grey, 65535) if alpha is None else alpha], axis=2)


def images(mask: bool) -> list[tuple[str, str, bytes, np.ndarray, bool]]:
    """Return (name, suffix, file, RGBA of 16 bits, has alpha) of all kinds. mask: white where it is not opaque."""
    made = []
    for bits in (1, 2, 4, 8):
        top = 2**bits - 1
        values = RNG.integers(0, 2, (ROWS, COLUMNS)) * top if mask else RNG.integers(0, top + 1, (ROWS, COLUMNS))
        key = top if mask else int(values[0, 0])
        grey = values * (65535 // top)
        rows, keyed = packed(values, bits), rgba(grey, np.where(values == key, 0, 65535))
        made.append((f"png grey {bits}", "png", png(0, bits, rows), rgba(grey), False))
        made.append((f"png grey {bits}, key", "png", png(0, bits, rows, (b"tRNS", bytes([0, key]))), keyed, True))
        index = np.arange(top + 1)
        colors = np.repeat(np.where(index > 0, 255, 0)[:, None], 3, 1) if mask else RNG.integers(0, 256, (top + 1, 3))
        alphas = np.where(index > 0, 128, 255) if mask else RNG.integers(0, 256, top + 1)
        color = np.concatenate([colors[values], np.full((ROWS, COLUMNS, 1), 255)], axis=2) * 257
        see = np.concatenate([colors[values], alphas[values][..., None]], axis=2) * 257
        palette, trns = (b"PLTE", colors.astype(np.uint8).tobytes()), (b"tRNS", alphas.astype(np.uint8).tobytes())
        made += [(f"png palette {bits}", "png", png(3, bits, rows, palette), color, False),
                 (f"png palette {bits}, tRNS", "png", png(3, bits, rows, palette, trns), see, True)]  # fmt: skip
    black = RNG.random((ROWS, COLUMNS)) < 0.3
    grey = np.where(black, 0, 255) if mask else RNG.integers(0, 256, (ROWS, COLUMNS))
    alpha = np.where(black, 255, 0) if mask else RNG.choice([0, 200, 255, 255, 255], (ROWS, COLUMNS))
    color = np.repeat(grey[..., None], 3, axis=2) if mask else RNG.integers(0, 256, (ROWS, COLUMNS, 3))
    both = np.concatenate([color, alpha[..., None]], axis=2)
    wide = grey * 257 if mask else RNG.integers(0, 65536, (ROWS, COLUMNS))

    def raw(values: np.ndarray, kind: str = "u1") -> list[bytes]:
        return [row.astype(kind).tobytes() for row in values]

    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    plain, bgra = rgba(grey * 257), b"".join(raw(both[..., [2, 1, 0, 3]]))
    opaque = np.concatenate([color, np.full((ROWS, COLUMNS, 1), 255)], axis=2) * 257
    of_254, of_100 = grey.clip(0, 254), grey * 100 // 255
    made += [
        ("png grey 16", "png", png(0, 16, raw(wide, ">u2")), rgba(wide), False),
        ("png grey and alpha", "png", png(4, 8, raw(both[..., [0, 3]])), both[..., [0, 0, 0, 3]] * 257, True),
        ("png grey, opaque alpha", "png", png(4, 8, raw(opaque[..., [0, 3]] // 257)), opaque[..., [0, 0, 0, 3]], True),
        ("png RGB", "png", png(2, 8, raw(color)), opaque, False),
        ("png RGBA", "png", png(6, 8, raw(both)), both * 257, True),
        ("png RGBA, opaque", "png", png(6, 8, raw(opaque // 257)), opaque, True),
        ("png RGB 16", "png", png(2, 16, raw(color * 257, ">u2")), opaque, False),
        ("pgm P5", "pgm", b"P5\n# made\n16 8\n255\n" + b"".join(raw(grey)), plain, False),
        ("pgm P5 16", "pgm", b"P5\n16 8\n65535\n" + b"".join(raw(wide, ">u2")), rgba(wide), False),
        ("pgm P2", "pgm", b"P2\n16 8\n255\n" + " ".join(map(str, grey.ravel())).encode() + b"\n", plain, False),
        ("pgm P5, 254 is white", "pgm", b"P5\n16 8\n254\n" + b"".join(raw(of_254)), rgba(of_254 * 65535 // 254), False),
        ("pgm P5, 100 is white", "pgm", b"P5\n16 8\n100\n" + b"".join(raw(of_100)), rgba(of_100 * 65535 // 100), False),
        ("ppm P6", "ppm", b"P6\n16 8\n255\n" + b"".join(raw(color)), opaque, False),
        ("bmp 24", "bmp", bmp(24, 0, b"".join(raw(color[..., ::-1]))), opaque, False),
        ("bmp 32, no header of alpha", "bmp", bmp(32, 0, bgra), both * 257, True),
        ("bmp 32, V5", "bmp", bmp(32, 3, bgra, masks, 124), both * 257, True),
    ]  # fmt: skip
    return made


UNSURE = {
    "png grey and alpha",  # GraphicsMagick takes it for opaque
    "png RGB 16",  # Pillow keeps 8 of 16 bits
    "pgm P5, 254 is white", "pgm P5, 100 is white",  # GraphicsMagick rounds otherwise, or takes 1 bit
    "bmp 32, no header of alpha",  # Pillow drops the fourth byte
}  # fmt: skip
"""May be refused although both definitions agree."""
USED = {"keep_out": occupied_cells, "speed": speed_limits, "map": free_cells}


@pytest.mark.parametrize("mask", [True, False], ids=["mask", "random"])
@pytest.mark.parametrize("mode", ["trinary", "scale", "raw"])
@pytest.mark.parametrize("negate", [0, 1])
def test_every_kind_is_read_as_nav2_does_or_refused(mask, mode, negate, tmp_path):
    accepted, refused = set(), set()
    for name, suffix, data, pixels, has_alpha in images(mask):
        file = write(tmp_path, suffix, data, mode, negate)
        old, new = (
            np.array([[version(pixel, has_alpha, mode, negate) for pixel in row] for row in pixels])
            for version in (humble, jazzy)
        )
        for purpose, used in USED.items():
            try:
                table, value = read_map_image(file, used)
            except InputError:
                refused.add(name)
                unequal = used(old, TABLE[mode]) != used(new, TABLE[mode])
                assert unequal.any() or name in UNSURE, (name, purpose)
            else:
                accepted.add(name)
                np.testing.assert_array_equal(used(value, table), used(new, table), f"{name}, {purpose}")
                np.testing.assert_array_equal(used(value, table), used(old, table), f"{name}, {purpose}")
    assert accepted
    assert refused or mask


TABLE = {
    mode: RosMapTable(image=Path("map.png"), resolution=0.05, origin=(0.0, 0.0, 0.0), mode=mode, **THRESHOLDS)
    for mode in ("trinary", "scale", "raw")
}


def write(folder: Path, suffix: str, data: bytes, mode: str, negate: int) -> Path:
    (folder / f"map.{suffix}").write_bytes(data)
    limits = "".join(f"{key}: {value}\n" for key, value in THRESHOLDS.items())
    text = f"image: map.{suffix}\nresolution: 0.05\norigin: [0, 0, 0]\nmode: {mode}\nnegate: {negate}\n{limits}"
    (folder / "map.yaml").write_text(text)
    return folder / "map.yaml"


@pytest.mark.parametrize(
    "kind", ["png grey and alpha", "png RGBA", "png palette 8, tRNS", "png grey 8, key", "bmp 32, V5"]
)
def test_a_mask_with_transparency_forbids_its_black_cells(kind, tmp_path):
    """Black is opaque; the rest is transparent white. Both versions forbid the black cells."""
    for name, suffix, data, pixels, _ in images(mask=True):
        if name == kind:
            value = read_map_image(write(tmp_path, suffix, data, "trinary", 0), occupied_cells)[1]
            np.testing.assert_array_equal(value == 100, pixels[..., 0] == 0)
            assert 0 < (value == 100).sum() < value.size


def test_transparent_black_is_refused(tmp_path):
    """Occupied in Humble, unknown since Jazzy: an eraser in a paint program leaves it."""
    pixels = np.zeros((ROWS, COLUMNS, 4), np.uint8)
    file = write(tmp_path, "png", png(6, 8, [row.tobytes() for row in pixels]), "trinary", 0)
    with pytest.raises(InputError, match=r"map\.png: nav2 versions differ in 128 of 128 cells.*save it as 8-bit grey"):
        read_map_image(file, occupied_cells)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"P5\n16 8\n100\n", "its maxval is 100, and all versions read only 255 alike"),
        (b"P2\n16 8\n1\n", "its maxval is 1, and all versions read only 255 alike"),
        (b"P6\n16 8\n15\n", "its maxval is 15, and all versions read only 255 alike"),
        (b"P5\n16 8\n1000\n", "its maxval is 1000, and all versions read only 255 or 65535 alike"),
    ],
)
def test_a_mask_of_another_white_is_refused_by_its_maxval(head, words, tmp_path):
    wide = np.linspace(0, 1000, ROWS * COLUMNS).astype(">u2").tobytes()
    content = b"0 1 " * 64 if head.startswith(b"P2") else wide if b"1000" in head else b"\1\2" * 192
    with pytest.raises(InputError) as refused:
        read_map_image(write(tmp_path, "pgm", head + content, "trinary", 0), free_cells)
    assert "map.pgm: nav2 versions differ in" in str(refused.value)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["WEBP", "ICO", "TGA"])
def test_an_image_of_a_format_that_map_server_does_not_read_is_refused_by_a_line(name, tmp_path):
    content = io.BytesIO()
    Image.new("L", (COLUMNS, ROWS), 255).save(content, name)
    file = write(tmp_path, name.lower(), content.getvalue(), "trinary", 0)
    with pytest.raises(InputError, match=rf"map\.{name.lower()}: not an image in a supported format"):
        read_map_image(file, occupied_cells)


@pytest.mark.parametrize("mode", ["F", "I", "CMYK", "LAB"])
def test_a_mode_that_decoders_read_differently_is_refused(mode, tmp_path):
    content = io.BytesIO()
    Image.new(mode, (COLUMNS, ROWS)).save(content, "TIFF")
    with pytest.raises(InputError, match=f"map.tif: a TIFF of Pillow's mode {mode}: save it as 8-bit grey"):
        read_map_image(write(tmp_path, "tif", content.getvalue(), "trinary", 0), occupied_cells)


@pytest.mark.parametrize("turn", [1, 3, 6])
@pytest.mark.parametrize("form", ["TIFF", "PNG", "JPEG"])
def test_an_image_with_an_orientation_is_refused(form, turn, tmp_path):
    content, tags = io.BytesIO(), Image.Exif()
    tags[0x0112] = turn
    Image.new("L", (COLUMNS, ROWS), 255).save(content, form, exif=tags)
    file = write(tmp_path, form.lower(), content.getvalue(), "trinary", 0)
    if turn == 1:
        assert not occupied_cells(*reversed(read_map_image(file, occupied_cells))).any()
        return
    with pytest.raises(InputError, match=f"has the orientation tag {turn}, by which some programs turn it"):
        read_map_image(file, occupied_cells)


@pytest.mark.parametrize(("grey", "read"), [(0, True), (255, True), (89, False)])
def test_a_lossy_image_is_read_where_no_decoder_can_differ(grey, read, tmp_path):
    """Black and white are; grey 89 is 0.651 of black, beside the threshold of 0.65."""
    content = io.BytesIO()
    Image.new("L", (COLUMNS, ROWS), grey).save(content, "JPEG")
    file = write(tmp_path, "jpg", content.getvalue(), "trinary", 0)
    if read:
        assert ((read_map_image(file, occupied_cells)[1] == 100) == (grey == 0)).all()
        return
    with pytest.raises(InputError, match="nav2 versions differ in 128 of 128 cells"):
        read_map_image(file, occupied_cells)
