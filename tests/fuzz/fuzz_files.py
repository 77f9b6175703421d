"""Files that others have made, or that a crash has left, as rows of `fuzz_parsers.Parser`; recordings are elsewhere."""

from __future__ import annotations

import datetime
import io
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from engines.runs.torch_file import read_torch, write_torch
from engines.train.config import load_train_config
from hil.drive.conditions import CONDITIONS_FILE, load_conditions
from hil.drive.episodes import load_episodes
from hil.evaluate.episode_selection import find_sets
from hil.maps.load import load_ros_map
from hil.maps.mesh import load_mesh
from hil.maps.vector_map import load_vector_map
from hil.physics.collision_world import Body
from hil.scene.areas import load_areas
from hil.sensors.depth_noise import NUMBERS_FILE, load_depth_noise
from onboard.commands.install.layout import MARKER, read_marker
from onboard.commands.install.wheel import Choice, lock_of, read_wheel
from onboard.commands.scan import read_depth_png
from onboard.commands.security.keystore import CA_CERTIFICATE, CA_KEY, Authority
from onboard.config.config import DEFAULT_ROBOT, ZonesSection, load_config
from onboard.config.footprint import Footprint
from onboard.config.mounts import calibration_dates, load_mounts
from onboard.config.plant_model import load_plant
from onboard.navigation.ekf import LocalizationState
from onboard.policy.manifest import load_manifest, manifest_path
from onboard.policy.onnx_weights import weight_types
from onboard.safety.keepout_zones import load_zones, zone_of
from onboard.values.messages import Pose
from tests.fuzz.fuzz_bytes import damaged, fixed
from tests.fuzz.fuzz_parsers import InFile, Parser
from tests.hil.maps.test_mesh import TO_Y_UP, as_collada, boxes
from tests.rigs.devices.small_model import small_policy_files
from tests.rigs.machine.install_rig import wheel

MANIFEST = "m.onnx.manifest.json"
MAP = "map.yaml"
MAP_YAML = (
    b"image: map.pgm\nresolution: 0.05\norigin: [0.0, 0.0, 0.0]\nnegate: 0\noccupied_thresh: 0.65\nfree_thresh: 0.2\n"
)
SMALL_MAP = "home"
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
V_MAX_MPS, RADIUS_M = 1.0, 0.25
EPISODES = {
    "made_by": "a test", "map": SMALL_MAP, "building": "a home", "split": "train", "seed": 1,
    "furniture": {"seed": 1, "density": 1.0},
    "episodes": [{"start_x_y_yaw": [1.0, 2.0, 0.5], "goal_x_y": [3.0, 2.0], "geodesic_m": 2.1, "straight_m": 2.0}],
}  # fmt: skip
AREAS = b'[[area]]\nname = "hall"\nrectangle_m = [0.0, 0.0, 5.0, 4.0]\ncount = 3\n'


# ---- seeds


def image(name: str, mode: str = "L") -> bytes:
    """Return a small image in the format of a file's name, three greys in it."""
    pixels = np.full((9, 12), 254, np.uint8)
    pixels[0], pixels[:, 0], pixels[4, 4] = 0, 0, 205
    stream = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stream, Path(name).suffix[1:].replace("pgm", "ppm"))
    return stream.getvalue()


def depth_png() -> bytes:
    """Return a depth image as `onboard scan` takes it."""
    stream = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint16).reshape(6, 8)).save(stream, "png")
    return stream.getvalue()


def of_mesh(suffix: str, folder: Path) -> st.SearchStrategy[bytes]:
    """Return what draws the room of `test_mesh`, damaged, in a format."""
    file = folder / f"room{suffix}"
    if suffix == ".dae":
        as_collada(file, "Z_UP", 1.0, None)
    elif suffix == ".obj":
        boxes().export(file)
    else:
        boxes(TO_Y_UP).export(file)
    return damaged(file.read_bytes())


@cache
def authority() -> Mapping[Path, bytes]:
    """Return key and certificate of an authority."""
    with tempfile.TemporaryDirectory() as folder:
        Authority(Path(folder), NOW)
        return {file: (Path(folder) / file).read_bytes() for file in (CA_KEY, CA_CERTIFICATE)}


@cache
def a_policy() -> tuple[bytes, bytes]:
    """Return a model of a few numbers and its manifest."""
    with tempfile.TemporaryDirectory() as folder:
        model = small_policy_files(Path(folder))
        return model.read_bytes(), manifest_path(model).read_bytes()


def a_checkpoint(folder: Path) -> bytes:
    import torch

    write_torch(folder / "c.pt", {"form": "x", "step": 3, "weights": {"a": torch.ones(2)}})
    return (folder / "c.pt").read_bytes()


# ---- readers


def mounts(path: Path) -> None:
    load_mounts(path)
    calibration_dates(path)


def masks(path: Path) -> None:
    """Load a mask as keep-out and as speed zone, and ask it where a robot stands."""
    for section in (ZonesSection(keep_out=path.with_name(MAP)), ZonesSection(speed=path.with_name(MAP))):
        found = load_zones(section, V_MAX_MPS, Footprint(RADIUS_M))
        for x_m in (0.1, 0.3, -5.0):
            zone_of(found, LocalizationState(map_from_base=Pose(x_m, 0.2, 0.4), covariance=np.eye(5) * 1e-4))


def keys(other: Path, path: Path) -> None:
    """Sign with an authority one of whose files is damaged, and make a member."""
    folder = path.parents[1]
    (folder / other).parent.mkdir(parents=True, exist_ok=True)
    (folder / other).write_bytes(authority()[other])
    one = Authority(folder, NOW)
    one.sign("<dds/>")
    one.member("robot")


def manifest(path: Path) -> None:
    path.with_name("m.onnx").write_bytes(a_policy()[0])
    load_manifest(path.with_name("m.onnx"))


def choice() -> Choice:
    return Choice("", None, False, Path("/usr/bin/python3"))


def default(name: str) -> bytes:
    return (DEFAULT_ROBOT / name).read_bytes()


def shipped(paths: Sequence[Path]) -> Callable[[Path], st.SearchStrategy[bytes]]:
    return fixed(*(path.read_bytes() for path in paths))


HIL = NUMBERS_FILE.parents[1]
PARSERS = (
    Parser("configuration", fixed(default("onboard.toml"), b"[dds]\ndomain = 3\npeers = []\n"),
           InFile("robot.toml", load_config)),
    Parser("mounts", fixed(default("mounts.toml")), InFile("mounts.toml", mounts)),
    Parser("plant", fixed(default("plant.toml")), InFile("plant.toml", load_plant)),
    Parser("manifest", lambda folder: damaged(a_policy()[1]),
           InFile(MANIFEST, manifest)),
    Parser("model", lambda folder: damaged(a_policy()[0]), InFile("m.onnx", weight_types)),
    Parser("map table", fixed(MAP_YAML), InFile(MAP, load_ros_map, {"map.pgm": image("map.pgm")})),
    Parser("map image", fixed(image("m.pgm"), image("m.png"), image("m.png", "RGBA"), image("m.bmp")),
           InFile("map.pgm", lambda path: load_ros_map(path.with_name(MAP)), {MAP: MAP_YAML})),
    Parser("vector map", shipped([HIL / "maps" / "data" / f"{SMALL_MAP}.json"]), InFile("map.json", load_vector_map)),
    *(Parser(f"mesh {suffix[1:]}", partial(of_mesh, suffix), InFile(f"room{suffix}", load_mesh))
      for suffix in (".obj", ".glb", ".dae")),
    Parser("zone table", fixed(MAP_YAML, MAP_YAML + b"mode: scale\n"),
           InFile(MAP, masks, {"map.pgm": image("map.pgm")})),
    Parser("zone mask", fixed(image("m.pgm"), image("m.png", "LA")),
           InFile("map.pgm", masks, {MAP: MAP_YAML + b"mode: scale\n"})),
    Parser("areas", fixed(AREAS), InFile("areas.toml", load_areas)),
    Parser("episodes", fixed(json.dumps(EPISODES).encode()), InFile("e.json", load_episodes)),
    Parser("episodes of an evaluation", fixed(json.dumps(EPISODES).encode()),
           InFile("e.json", lambda path: find_sets([str(path)], None, 1, Body()))),
    Parser("conditions", shipped([CONDITIONS_FILE]), InFile("conditions.toml", load_conditions)),
    Parser("depth noise", shipped([NUMBERS_FILE]), InFile("noise.toml", load_depth_noise)),
    Parser("training", shipped([HIL.parent / "engines/train/onboard-s.toml"]), InFile("train.toml", load_train_config)),
    Parser("checkpoint", lambda folder: damaged(a_checkpoint(folder)), InFile("c.pt", read_torch)),
    Parser("depth image", fixed(depth_png()), InFile("d.png", read_depth_png)),
    Parser("authority key", lambda folder: damaged(authority()[CA_KEY]),
           InFile(f"keys/{CA_KEY}", partial(keys, CA_CERTIFICATE))),
    Parser("authority certificate", lambda folder: damaged(authority()[CA_CERTIFICATE]),
           InFile(f"keys/{CA_CERTIFICATE}", partial(keys, CA_KEY))),
    Parser("wheel", lambda folder: damaged(wheel(folder, "0.1.0", lock="other==1.0\n").read_bytes()),
           InFile("onboard-0.1.0-py3-none-any.whl", lambda path: lock_of(read_wheel(path, choice()), choice()))),
    Parser("version's mark", fixed(b'{"name": "0.1.0-abc", "release": "0.1.0", "source": "onboard-0.1.0.whl"}'),
           InFile(MARKER, lambda path: read_marker(path.parent))),
)  # fmt: skip
