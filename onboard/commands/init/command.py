"""`onboard init`: the three files of a robot and a page of what to type next; `onboard config-schema`: their keys."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from onboard.assembly.in_effect import ahead_mps, in_effect_text
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, finite, write_json
from onboard.commands.init.answers import (
    KEYS,
    copy_robot,
    default_of,
    mounts_tables,
    pair_of,
    plant_tables,
    state_size_and_lidar,
    stated_tables,
)
from onboard.commands.init.files import README, SECTIONS, File, trial, write_files
from onboard.commands.mounts import FloorOption, JointOption, joint_values
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.config.pretrained import pretrained_names
from onboard.config.toml_file import checked, read_toml, toml_or_text, validation_lines
from onboard.config.urdf import Urdf, read_urdf
from onboard.values.errors import InputError

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


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
CAMERAS = re.compile("cam|depth|optical|realsense|oak|zed", re.IGNORECASE)
LASERS = re.compile("laser|lidar|scan|velodyne|hokuyo|sick", re.IGNORECASE)
"""In the names of frames of sensors."""
COLOR = "color"
"""The colour camera in --serial."""


FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files; created if needed.")]
RobotOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Copy a robot that ships: turtlebot4, jackal, husky, stretch or kobuki."),
]
NameOption = Annotated[str | None, typer.Option(help="Name of the robot.")]
FootprintOption = Annotated[
    str | None, typer.Option(metavar="R|LxW|CORNERS", help=r"Radius, length x width, or \[\[x, y], ...], in m.")
]
HeightOption = Annotated[
    float | None, typer.Option(help="Highest point of the robot above the floor, in m.", callback=finite)
]
SpeedOption = Annotated[float | None, typer.Option(help="Highest speed in m/s.")]
CamerasOption = Annotated[str | None, typer.Option(help="Source of depth: dds, realsense or none.")]
CameraOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FRAME|X,Y,Z,LEFT,DOWN,ROLL",
        help="A depth camera: its frame in the URDF, or X,Y,Z in m and LEFT,DOWN,ROLL in deg; repeatable.",
    ),
]
UrdfOption = Annotated[Path | None, typer.Option("--from-urdf", metavar="FILE", help="URDF of the robot.")]
SerialOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=NUMBER", help="Serial number of a RealSense; repeatable; color=NUMBER for colour."),
]
ColorOption = Annotated[str | None, typer.Option(help="Source of colour: dds, realsense or none.")]
ScanTopicOption = Annotated[str | None, typer.Option(help="Topic of a LaserScan that replaces depth cameras.")]
LaserOption = Annotated[
    str | None, typer.Option(metavar="FRAME", help="Frame in the URDF of the lidar of --scan-topic.")
]
BaseOption = Annotated[str | None, typer.Option(help="dds: ROS topics; serial: a Kobuki.")]
PolicyOption = Annotated[str | None, typer.Option(help="reactive, or a model; append +reactive for a fallback.")]
NamespaceOption = Annotated[str | None, typer.Option(help="Namespace of the topics.")]
StampedOption = Annotated[bool | None, typer.Option("--stamped/--no-stamped", help="Send TwistStamped.")]
TopicOption = Annotated[
    list[str] | None, typer.Option(metavar="OURS=WIRE", help="Rename a topic on the wire; repeatable.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Any other key of onboard.toml.")
]
AskOption = Annotated[bool, typer.Option(help="Ask for missing values on a terminal.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


def init(
    folder: FolderArgument,
    robot: RobotOption = None,
    name: NameOption = None,
    footprint: FootprintOption = None,
    height: HeightOption = None,
    speed: SpeedOption = None,
    cameras: CamerasOption = None,
    camera: CameraOption = None,
    from_urdf: UrdfOption = None,
    serial: SerialOption = None,
    color: ColorOption = None,
    scan_topic: ScanTopicOption = None,
    laser: LaserOption = None,
    base: BaseOption = None,
    policy: PolicyOption = None,
    namespace: NamespaceOption = None,
    stamped: StampedOption = None,
    topic: TopicOption = None,
    set_key: SetOption = None,
    ask: AskOption = True,
    force: ForceOption = False,
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
        lists = {"camera": camera, "from_urdf": from_urdf, "serial": serial, "topic": topic, "set": set_key}
        others = [key.replace("_", "-") for key, value in (given | lists).items() if value]
        _copy(robot, folder, force, others, json_file)
        return
    paths = [folder / f"{file.value}.toml" for file in File] + [folder / "README.md"]
    if not force and (there := [path for path in paths if path.exists()]):
        raise InputError(f"{there[0]}: already exists; --force replaces it")
    urdf = None if from_urdf is None else read_urdf(from_urdf, joint_values(joint or []))
    _check_frames(from_urdf, urdf, camera, laser, scan_topic)
    if ask and sys.stdin.isatty():
        serial = _answered(given, urdf is not None, camera, serial)
    stated = stated_tables(given, topic or [], set_key or [], folder)
    base_frame = stated.get("dds", {}).get("base_frame", "base_link")
    notes = [] if urdf is None else state_size_and_lidar(stated, urdf, base_frame, floor_m, laser)
    numbers = dict(pair_of("--serial", one) for one in serial or [])
    _state_colour(stated, numbers.pop(COLOR, None))
    with checked(paths[0], InputError):
        Config.model_validate(stated)
    mounts, more = mounts_tables(camera or [], urdf, numbers, base_frame, floor_m)
    sys.stderr.writelines(f"{note}\n" for note in dict.fromkeys((*more, *notes)))
    _write(folder, paths, stated, mounts, json_file)


def _check_frames(
    file: Path | None, urdf: Urdf | None, camera: Sequence[str] | None, laser: str | None, scan_topic: str | None
) -> None:
    """Raise InputError for a URDF without a frame to take from it, and for a frame without its URDF or topic."""
    if urdf is not None and not (camera or laser):
        raise InputError(f"--from-urdf {file}: {_frames_to_name(urdf)}")
    if laser is not None and (urdf is None or scan_topic is None):
        raise InputError(f"--laser {laser}: needs --from-urdf, the file with this frame, and --scan-topic")


def _answered(
    given: dict[str, Any], has_urdf: bool, camera: Sequence[str] | None, serial: list[str] | None
) -> list[str] | None:
    """Ask for what is missing, and add the answers; return the serial numbers of the cameras."""
    missing = [key for key in QUESTIONS if given[key] is None and not (has_urdf and key == "footprint")]
    given.update({key: _prompt(key) for key in missing})
    return _prompt_serials(camera or []) if given["cameras"] == "realsense" and not serial else serial


def _write(
    folder: Path, paths: Sequence[Path], stated: dict[str, Any], mounts: dict[str, Any], json_file: str | None
) -> None:
    """Write the files, and print what they set; a slow robot gets more time to come nearer to its goal."""
    if stated.get("cameras", {}).get("color") == "none":
        del mounts["color_cameras"]
    values = {File.ONBOARD: stated, File.MOUNTS: mounts, File.PLANT: plant_tables(stated)}
    with trial(folder, values) as (config, _):
        slower = max(1.0, 1.0 / max(ahead_mps(config) or 1.0, SLOWEST_MPS))
    if slower > 1.0:
        patience_s = round(min(slower * default_of("goal.progress_timeout_s"), default_of("goal.timeout_s")))
        stated.setdefault("goal", {}).setdefault("progress_timeout_s", patience_s)
    name = stated["robot"].get("name", "robot")
    config = write_files(folder, values, README.format(name=name, folder=folder, limit_s=round(slower * DRIVE_S)))
    write_json(json_file, {"files": [str(path) for path in paths], "stated": stated})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(in_effect_text(config))
        sys.stdout.writelines(f"assumed  {line}\n" for line in _assumed(stated, mounts))
        sys.stdout.write(
            f"written: {', '.join(path.name for path in paths)} in {folder}; {paths[-1]} lists the next steps\n"
        )


def _state_colour(stated: dict[str, Any], serial: str | None) -> None:
    """Add the source of colour: a RealSense by its serial number, or none next to depth that is none or a RealSense's.

    Raises InputError for a serial number that no source uses.
    """
    cameras = stated.setdefault("cameras", {})
    if serial is not None:
        if (chosen := cameras.setdefault("color", "realsense")) != "realsense":
            raise InputError(f"--serial color={serial}: has no effect, because the colour source is {chosen}")
        cameras["color_serial"] = serial
    elif cameras.get("source") in ("none", "realsense"):
        cameras.setdefault("color", "none")


def _frames_to_name(urdf: Urdf) -> str:
    """Return what to add to --from-urdf, with the frames that look like those of sensors."""
    cameras, lidars = (sorted(frame for frame in urdf.frames() if kind.search(frame)) for kind in (CAMERAS, LASERS))
    return (
        "name the frame of each camera, --camera NAME=FRAME, or with --scan-topic that of the lidar, --laser FRAME; "
        f"it has {', '.join([*cameras, *lidars] or sorted(urdf.frames()))}"
    )


def _assumed(stated: dict[str, Any], mounts: dict[str, Any]) -> Iterator[str]:
    """Yield what nobody stated and a wrong value makes unsafe, with where to state it."""
    robot = stated["robot"]
    if not {"footprint_radius_m", "footprint_m"} & robot.keys():
        yield "a circle of 0.25 m: --footprint, or robot.footprint_radius_m in onboard.toml"
    if "height_m" not in robot:
        yield f"{default_of('robot.height_m'):g} m high: --height, or robot.height_m"
    if "v_max_mps" not in stated.get("limits", {}):
        yield f"a base that drives {default_of('limits.v_max_mps'):g} m/s: --speed, or limits.v_max_mps"
    written = [name for name, mount in mounts["cameras"].items() if "fx" in mount]
    if written and stated["cameras"].get("source") == "realsense":
        yield f"poses and lens of the default robot's cameras {', '.join(written)}: --camera NAME=FRAME|X,Y,Z,..."


def _copy(robot: str, folder: Path, force: bool, others: Sequence[str], json_file: str | None) -> None:
    """Copy a robot that ships. Raises InputError, also for options that describe another robot."""
    if others:
        raise InputError(f"--robot {robot} copies files as they are: leave out --{others[0]}, and edit onboard.toml")
    written = copy_robot(robot, folder, force)
    write_json(json_file, {"files": [str(path) for path in written], "robot": robot})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(in_effect_text(load_config(folder / "onboard.toml")))
        sys.stdout.write(f"written: {', '.join(path.name for path in written)} in {folder}; read README.md first\n")


def _prompt(key: str) -> Any:
    """Return the answer to a question as an option would state it; None for the default."""
    default = "0.25" if key == "footprint" else str(default_of(KEYS[key]))
    question = QUESTIONS[key].format(policies=", ".join(["reactive", *pretrained_names()]))
    while True:
        answer = typer.prompt(question, default=default, err=True)
        if answer == default:
            return None
        value = toml_or_text(answer) if key in ("speed", "stamped") else answer
        try:
            Config.model_validate(stated_tables(dict.fromkeys(("footprint", *KEYS)) | {key: value}, [], [], Path()))
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


SLOWEST_MPS, DRIVE_S = 0.1, 100.0
"""Least speed for which times are lengthened; and the time limit of a drive of `onboard-hil evaluate` at 1 m/s."""
