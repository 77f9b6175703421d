"""`onboard init`: the three files of a robot and a page of what to type next; `onboard config-schema`: their keys."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from onboard.assembly.assembly import check_files
from onboard.assembly.in_effect import ahead_mps, in_effect_text
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, finite, write_json
from onboard.commands.mounts import FloorOption, JointOption, joint_values, placed_camera
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.config.mounts import ROTATIONS, MountsFile
from onboard.config.plant_model import Plant
from onboard.config.pretrained import is_name, model_and_fallback, pretrained_names
from onboard.config.shipped_robots import copy_robot
from onboard.config.toml_file import Section, read_toml, toml_or_text, validation_lines
from onboard.config.toml_text import template
from onboard.config.urdf import Urdf, read_urdf
from onboard.values.errors import InputError, OnboardError

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"
HEAD = """\
# {what} Written by `onboard init`.
# A key behind `#` has this value by default. Remove the `#` to change it.

"""
README = """\
# {name}

| file | content |
|---|---|
| `onboard.toml` | rates, cameras, limits, policy, network, recorder |
| `mounts.toml` | each camera: position, intrinsics, serial number, nearest depth |
| `plant.toml` | how the base answers a velocity command |

Each key has its comment. The next three commands:

    onboard check-config --config {folder}/onboard.toml --files-only
    onboard-hil demo --config {folder}/onboard.toml
    onboard doctor --config {folder}/onboard.toml

The first checks all files and prints what drives. The second drives this robot in simulation. The third is for the
robot itself: green, amber or red, and what to do. The wheels turn with `onboard run --config {folder}/onboard.toml`.

An own building is a ROS map (`map.yaml` and its image). In it, drive once among furniture that a seed places, then
count ten drives in the map as it is:

    onboard-hil demo --config {folder}/onboard.toml --map map.yaml
    onboard-hil evaluate --config {folder}/onboard.toml --map map.yaml --furniture 0 --episodes 10 --limit {limit_s}

A drive ends after `--limit` seconds, or `goal.progress_timeout_s` without getting nearer. Both are longer for a robot
that its speed limit or blind sectors slow.

An editor with taplo (Even Better TOML) completes and checks keys with `#:schema ./onboard.schema.json` as first line of
`onboard.toml`, after:

    onboard config-schema --json {folder}/onboard.schema.json
"""


class File(str, Enum):
    """A file that describes the robot."""

    ONBOARD = "onboard"
    MOUNTS = "mounts"
    PLANT = "plant"


SECTIONS: dict[File, type[Section]] = {File.ONBOARD: Config, File.MOUNTS: MountsFile, File.PLANT: Plant}
WHAT = {
    File.ONBOARD: "What this robot is.",
    File.MOUNTS: "Where the cameras of this robot sit, seen from the base frame.",
    File.PLANT: "How the base of this robot answers a velocity command.",
}


def config_schema(
    file: Annotated[File, typer.Argument(help="The file whose keys are printed.")] = File.ONBOARD,
    json_file: JsonOption = None,
) -> None:
    """Print the JSON schema of `onboard.toml`, for completion and checks in an editor (taplo, Even Better TOML)."""
    write_json(json_file or STANDARD_OUTPUT, schema_of(file))


def schema_of(file: File) -> dict[str, Any]:
    """Return the JSON schema of a file as plain values."""
    return {"$schema": SCHEMA_ID, **SECTIONS[file].model_json_schema()}


# ---- `onboard init`

#            table and key              question on a terminal, with the default's text
QUESTIONS = {
    "footprint": "Footprint: radius, LENGTHxWIDTH, or corners [[x, y], ...] in m",
    "speed": "Highest speed in m/s",
    "cameras": "Depth cameras: dds, realsense or none",
    "base": "Base: dds (ROS topics) or serial (Kobuki)",
    "policy": "Policy: {policies}, or an .onnx file; +reactive adds a fallback",
    "namespace": "Namespace of the topics, empty for none",
    "stamped": "Commands as TwistStamped: true or false",
}
OVERHEAD_M = 0.2
"""Obstacles count up to this far above the robot's highest point (`scan.z_max_m`)."""
COLOR = "color"
"""The colour camera in --serial."""
KEYS = {
    "speed": "limits.v_max_mps",
    "height": "robot.height_m",
    "cameras": "cameras.source",
    "base": "odometry.input",
    "policy": "policy.model",
    "namespace": "dds.namespace",
    "stamped": "dds.stamped_cmd_vel",
    "scan_topic": "scan.topic",
    "color": "cameras.color",
    "name": "robot.name",
}


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files; created if needed.")],
    robot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Copy a robot that ships: turtlebot4, jackal, husky, stretch or kobuki."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the robot.")] = None,
    footprint: Annotated[
        str | None, typer.Option(metavar="R|LxW|CORNERS", help=r"Radius, length x width, or \[\[x, y], ...], in m.")
    ] = None,
    height: Annotated[
        float | None, typer.Option(help="Highest point of the robot above the floor, in m.", callback=finite)
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Highest speed in m/s.")] = None,
    cameras: Annotated[str | None, typer.Option(help="Source of depth: dds, realsense or none.")] = None,
    camera: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FRAME|X,Y,Z,LEFT,DOWN,ROLL",
            help="A depth camera: its frame in the URDF, or X,Y,Z in m and LEFT,DOWN,ROLL in deg; repeatable.",
        ),
    ] = None,
    from_urdf: Annotated[Path | None, typer.Option("--from-urdf", metavar="FILE", help="URDF of the robot.")] = None,
    serial: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Serial number of a RealSense; repeatable; color=NUMBER for colour."),
    ] = None,
    color: Annotated[str | None, typer.Option(help="Source of colour: dds, realsense or none.")] = None,
    scan_topic: Annotated[str | None, typer.Option(help="Topic of a LaserScan that replaces depth cameras.")] = None,
    base: Annotated[str | None, typer.Option(help="dds: ROS topics; serial: a Kobuki.")] = None,
    policy: Annotated[str | None, typer.Option(help="reactive, or a model; append +reactive for a fallback.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Namespace of the topics.")] = None,
    stamped: Annotated[bool | None, typer.Option("--stamped/--no-stamped", help="Send TwistStamped.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="OURS=WIRE", help="Rename a topic on the wire; repeatable.")
    ] = None,
    set_key: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Any other key of onboard.toml.")
    ] = None,
    ask: Annotated[bool, typer.Option(help="Ask for missing values on a terminal.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    json_file: JsonOption = None,
    joint: JointOption = None,
    floor_m: FloorOption = None,
) -> None:
    """Write the files that describe a robot, every key with its comment, and a page of the next commands."""
    given: dict[str, Any] = {
        "name": name, "footprint": footprint, "speed": speed, "cameras": cameras, "color": color, "base": base,
        "scan_topic": scan_topic, "policy": policy, "namespace": namespace, "stamped": stamped, "height": height,
    }  # fmt: skip
    check_json_target(json_file)
    if robot is not None:
        lists = {"camera": camera, "serial": serial, "topic": topic, "set": set_key, "from-urdf": from_urdf}
        others = [key.replace("_", "-") for key, value in (given | lists).items() if value]
        _copy(robot, folder, force, others, json_file)
        return
    paths = [folder / f"{file.value}.toml" for file in File] + [folder / "README.md"]
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise InputError(f"{there[0]}: already exists; --force replaces it")
    if ask and sys.stdin.isatty():
        given.update({key: _prompt(key) for key in QUESTIONS if given[key] is None})
        if given["cameras"] == "realsense" and not serial:
            serial = _prompt_serials(camera or [])
    stated = _stated(given, topic or [], set_key or [], folder)
    source = stated.get("cameras", {}).get("source")
    numbers = dict(_pair("--serial", one) for one in serial or [])
    if (color_serial := numbers.pop(COLOR, None)) is not None:
        chosen = stated.setdefault("cameras", {}).setdefault("color", "realsense")
        if chosen != "realsense":
            raise InputError(f"--serial color={color_serial}: has no effect, because the colour source is {chosen}")
        stated["cameras"]["color_serial"] = color_serial
    elif source in ("none", "realsense"):
        stated["cameras"].setdefault("color", "none")
    try:
        Config.model_validate(stated)
    except ValidationError as error:
        raise InputError(validation_lines(paths[0], error)) from error
    if from_urdf is not None and not camera:
        raise InputError(f"--from-urdf {from_urdf}: name the cameras' frames too, --camera NAME=FRAME for each")
    urdf = None if from_urdf is None else read_urdf(from_urdf, joint_values(joint or []))
    base_frame = stated.get("dds", {}).get("base_frame", "base_link")
    mounts, notes = _mounts(camera or [], urdf, numbers, base_frame, floor_m)
    sys.stderr.writelines(f"{note}\n" for note in notes)
    if stated.get("cameras", {}).get("color") == "none":
        del mounts["color_cameras"]
    values = {File.ONBOARD: stated, File.MOUNTS: mounts, File.PLANT: _plant(stated)}
    with _trial(folder, values) as (config, _):
        slower = 1.0 / max(ahead_mps(config) or 1.0, SLOWEST_MPS)
    if slower > 1.0:
        stated.setdefault("goal", {}).setdefault(
            "progress_timeout_s", round(min(slower * _default("goal.progress_timeout_s"), _default("goal.timeout_s")))
        )
    limit_s = round(max(slower, 1.0) * DRIVE_S)
    readme = README.format(name=stated["robot"].get("name", "robot"), folder=folder, limit_s=limit_s)
    config = _write(folder, values, readme)
    if json_file is not None:
        write_json(json_file, {"files": [str(path) for path in paths], "stated": stated})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(in_effect_text(config))
        if camera or source == "realsense":
            one = next(iter(mounts["cameras"].values()))
            sys.stdout.write(
                f"assumed  images of {one['width']}x{one['height']} with the default robot's lens: "
                "set width, height, fx, fy, cx and cy of your cameras in mounts.toml (rs-enumerate-devices -c, or "
                "the topic camera_info)\n"
            )
        sys.stdout.write(
            f"written: {', '.join(path.name for path in paths)} in {folder}; {paths[-1]} lists the next steps\n"
        )


def _copy(robot: str, folder: Path, force: bool, others: Sequence[str], json_file: str | None) -> None:
    """Copy a robot that ships. Raises InputError, also for options that describe another robot."""
    if others:
        raise InputError(f"--robot {robot} copies files as they are: leave out --{others[0]}, and edit onboard.toml")
    written = copy_robot(robot, folder, force)
    if json_file is not None:
        write_json(json_file, {"files": [str(path) for path in written], "robot": robot})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(in_effect_text(load_config(folder / "onboard.toml")))
        sys.stdout.write(f"written: {', '.join(path.name for path in written)} in {folder}; read README.md first\n")


def _text(file: File, stated: Mapping[str, Any]) -> str:
    return HEAD.format(what=WHAT[file]) + template(SECTIONS[file], stated)


def _plant(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of plant.toml: the default base's, with the stated highest speed as its own."""
    plant = read_toml(DEFAULT_ROBOT / "plant.toml")
    if (speed := stated.get("limits", {}).get("v_max_mps")) is not None:
        plant["linear"]["speed_max"] = float(speed)
    return plant


def _prompt(key: str) -> Any:
    """Return the answer to a question as an option would state it; None for the default."""
    default = "0.25" if key == "footprint" else str(_default(KEYS[key]))
    question = QUESTIONS[key].format(policies=", ".join(["reactive", *pretrained_names()]))
    while True:
        answer = typer.prompt(question, default=default, err=True)
        if answer == default:
            return None
        value = toml_or_text(answer) if key in ("speed", "stamped") else answer
        try:
            Config.model_validate(_stated(dict.fromkeys(("footprint", *KEYS)) | {key: value}, [], [], Path()))
        except ValidationError as error:
            sys.stderr.write(f"{validation_lines('this answer', error)}\n")
        except InputError as error:
            sys.stderr.write(f"{error}\n")
        else:
            return value


def _prompt_serials(cameras: Sequence[str]) -> list[str]:
    """Return --serial options for all depth cameras, as answered; `onboard cameras` lists the numbers."""
    names = [camera.partition("=")[0] for camera in cameras] or list(
        read_toml(DEFAULT_ROBOT / "mounts.toml")["cameras"]
    )
    return [f"{name}={typer.prompt(f'Serial number of camera {name}', err=True)}" for name in names]


def _default(key: str) -> Any:
    table, name = key.split(".")
    return getattr(getattr(Config(), table), name)


def _stated(given: Mapping[str, Any], topics: Sequence[str], others: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the tables and keys of onboard.toml that are not left to their defaults. Raises InputError."""
    stated: dict[str, Any] = {"robot": {"mounts": "mounts.toml", "plant": "plant.toml"}}
    if given["footprint"] is not None:
        stated["robot"] |= _footprint(given["footprint"])
    keys = {KEYS[name]: value for name, value in given.items() if name in KEYS and value is not None}
    if given.get("height") is not None and given["height"] + OVERHEAD_M > _default("scan.z_max_m"):
        keys["scan.z_max_m"] = round(given["height"] + OVERHEAD_M, 3)
    if (policy := keys.pop("policy.model", None)) is not None:
        model, fallback = model_and_fallback(str(policy))
        keys["policy.model"] = model if is_name(model) else os.path.relpath(model, folder)
        keys |= {} if fallback == "none" else {"policy.fallback": fallback}
    if topics:
        keys["dds.remap"] = dict(_pair("--topic", topic) for topic in topics)
    keys |= {key: toml_or_text(value) for key, value in (_pair("--set", other) for other in others)}
    for key, value in keys.items():
        table, dot, name = key.partition(".")
        if not dot:
            raise InputError(f"--set {key}: expected TABLE.KEY=VALUE")
        stated.setdefault(table, {})[name] = value
    return stated


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(f"{option} {text}: expected NAME=VALUE")
    return name, value


def _footprint(text: str) -> dict[str, Any]:
    """Return the key of a circle, a rectangle about the base frame's origin, or corners. Raises InputError."""
    value = toml_or_text(text)
    length, cross, width = text.lower().partition("x")
    if cross:
        try:
            x, y = float(length) / 2.0, float(width) / 2.0
        except ValueError:
            raise InputError(f"--footprint {text}: expected LENGTHxWIDTH, as 1.2x0.5") from None
        return {"footprint_m": [[x, y], [-x, y], [-x, -y], [x, -y]]}
    if isinstance(value, list):
        return {"footprint_m": value}
    if isinstance(value, (int, float)):
        return {"footprint_radius_m": float(value)}
    raise InputError(f"--footprint {text}: expected a radius, LENGTHxWIDTH or [[x, y], ...]")


def _mounts(
    cameras: Sequence[str], urdf: Urdf | None, serials: Mapping[str, str], base: str, floor_m: float | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the tables of mounts.toml: the default robot's, with other depth cameras if stated; and notes on them.

    Raises InputError.
    """
    mounts, notes = read_toml(DEFAULT_ROBOT / "mounts.toml"), dict[str, None]()
    if cameras:
        like = {
            key: value for key, value in mounts["cameras"]["front"].items() if key not in (*ROTATIONS, "translation_m")
        }
        pairs = [_pair("--camera", camera) for camera in cameras]
        named = dict(pairs)
        if len(named) < len(pairs):
            raise InputError(f"--camera: each name only once, found {', '.join(name for name, _ in pairs)}")
        mounts["cameras"] = {}
        for name, place in named.items():
            table, more = _placed(name, place, urdf, base, floor_m)
            mounts["cameras"][name] = {**like, **table}
            notes |= dict.fromkeys(more)
    for mount in mounts["cameras"].values():
        mount.pop("least_m", None)  # true of simulated cameras alone: the doctor asks for that of real ones
    for name, number in serials.items():
        if name not in mounts["cameras"]:
            raise InputError(f"--serial {name}={number}: the cameras are {', '.join(mounts['cameras'])}")
        mounts["cameras"][name]["serial"] = number
    return mounts, list(notes)


def _placed(
    name: str, place: str, urdf: Urdf | None, base: str, floor_m: float | None
) -> tuple[dict[str, Any], list[str]]:
    parts = place.split(",")
    if len(parts) == 1:
        if urdf is None:
            raise InputError(f"--camera {name}={place}: a frame needs --from-urdf; else X,Y,Z,LEFT,DOWN,ROLL")
        return placed_camera(urdf, base, name, place, floor_m)
    try:
        x, y, z, *look = map(float, parts)
        left, down, roll = look
    except ValueError:
        raise InputError(f"--camera {name}={place}: expected six numbers X,Y,Z,LEFT,DOWN,ROLL") from None
    if not all(map(math.isfinite, (x, y, z, *look))):
        raise InputError(f"--camera {name}={place}: expected finite numbers")
    return {"translation_m": [x, y, z], "look_deg": [left, down, roll]}, []


SLOWEST_MPS, DRIVE_S = 0.1, 100.0
"""Least speed for which times are lengthened; and the time limit of a drive of `onboard-hil evaluate` at 1 m/s."""


@contextlib.contextmanager
def _trial(folder: Path, values: Mapping[File, Mapping[str, Any]]) -> Iterator[tuple[Config, Path]]:
    """Yield the content of the files, and their temporary folder. Raises OnboardError for a mistake."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".onboard-init-") as beside:
            for file in File:
                (Path(beside) / f"{file.value}.toml").write_text(_text(file, values[file]), encoding="utf-8")
            try:
                made = Path(beside).resolve() / "onboard.toml"
                check_files(config := load_config(made), made)
            except OnboardError as error:
                raise InputError(
                    str(error).replace(str(Path(beside).resolve()), str(folder)).replace(beside, str(folder))
                ) from error
            yield config, Path(beside)
    except OSError as error:
        raise OnboardError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _write(folder: Path, values: Mapping[File, Mapping[str, Any]], readme: str) -> Config:
    """Write the files and return what they say. If they have a mistake, nothing is written. Raises OnboardError."""
    with _trial(folder, values) as (_, beside):
        (beside / "README.md").write_text(readme, encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for name in (*(f"{file.value}.toml" for file in File), "README.md"):
            os.replace(beside / name, folder / name)
    return load_config(folder / "onboard.toml")
