"""A robot's URDF: where its frames are, and which joints move between them. The floor: `urdf_floor.py`."""

from __future__ import annotations

import difflib
import math
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import FARTHEST_M
from onboard.values.errors import InputError, naming
from onboard.values.geometry import NORM_TOLERANCE, quaternion_from_rpy, quaternion_product, rotation_from_quaternion

Vector = npt.NDArray[np.float64]
Quaternion = tuple[float, float, float, float]
Pose3 = tuple[Vector, Quaternion]
"""Translation (3,) [m] and rotation of a child frame in its parent."""

MAX_URDF_BYTES = 10_000_000
XACRO_S = 30.0
UNITS = {"revolute": "rad", "continuous": "rad", "prismatic": "m"}
"""Joints that move along or about one axis."""
UNSTATED = ("floating", "planar")
"""Joints whose position is published, and not in the URDF."""
KINDS = ("fixed", *UNITS, *UNSTATED)
ORIGIN = {"xyz", "rpy", "quat_xyzw"}
MOST_RAD = 2.0 * math.pi + 1e-3
ROUNDED = 1e-6
"""Tolerance of limits [rad, m]: files and people round."""
LENGTHS = {"cylinder": ("radius", "length"), "capsule": ("radius", "length"), "sphere": ("radius",)}
IDENTITY_XYZW: Quaternion = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Joint:
    """One joint. mimic: (joint, multiplier, offset); limits: lowest and highest value, None if it states none.

    doubt: why its pose cannot be what is meant, "" for no reason
    """

    name: str
    kind: str
    parent: str
    origin: Pose3
    doubt: str
    axis: Vector
    limits: tuple[float, float] | None = None
    mimic: tuple[str, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """One shape of a link.

    size: (radius,) of a sphere, (radius, length) of a cylinder or a capsule, three sides of a box [m], three scales of
        a mesh, () of others
    """

    part: str
    shape: str
    pose: Pose3
    size: tuple[float, ...]
    file: str


@dataclass(frozen=True)
class Urdf:
    """The joints by child frame, and the bodies by link.

    values: positions of joints that the caller states [rad, m]; all others are at zero, or where they mimic
    """

    path: Path
    joints: Mapping[str, Joint]
    bodies: Mapping[str, Sequence[Body]]
    values: Mapping[str, float] = field(default_factory=dict)

    def pose(self, base: str, frame: str) -> Pose3:
        """Return the pose of a frame in another, above or below it.

        Raises InputError if no joints connect them, or one between them has another unit or no stated position.
        """
        for name in (base, frame):
            self._check_frame(name)
        if (root := self._up(base)[-1]) != self._up(frame)[-1]:
            raise InputError(f"{self.path}: no chain of joints leads from {base} to {frame} ({root} is above {base})")
        for joint in self._between(base, frame):
            if joint.doubt:
                raise InputError(f"{self.path}: joint {joint.name}: {joint.doubt}")
        base_at, base_turn = self._in_root(base)
        at, turn = self._in_root(frame)
        back = (-base_turn[0], -base_turn[1], -base_turn[2], base_turn[3])
        return rotation_from_quaternion(back) @ (at - base_at), quaternion_product(back, turn)

    def moving_between(self, base: str, frame: str) -> str:
        """Return the joints that move between two frames, each with limits and position; "" if none does."""
        return "; ".join(self._stated(joint) for joint in self._between(base, frame) if joint.kind != "fixed")

    def _between(self, base: str, frame: str) -> list[Joint]:
        ways = [self._up(one)[:-1] for one in (base, frame)]
        return [
            self.joints[child]
            for child in reversed(dict.fromkeys(ways[0] + ways[1]))
            if (child in ways[0]) != (child in ways[1])
        ]

    def connected(self, base: str, frame: str) -> bool:
        """Return whether joints connect two frames."""
        return self._up(base)[-1] == self._up(frame)[-1]

    def frames(self) -> set[str]:
        """Return the names of all frames."""
        return {*self.joints, *(joint.parent for joint in self.joints.values())}

    def _check_frame(self, name: str) -> None:
        frames = sorted(self.frames())
        if name not in frames:
            near = difflib.get_close_matches(name, frames, 3, 0.4)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; it has {', '.join(frames[:10]) or 'none'}"
            raise InputError(f"{self.path}: has no frame {name}{hint}")

    def _up(self, frame: str) -> list[str]:
        """Return the frame and all frames above it, up to its root. Raises InputError for a ring."""
        chain = [frame]
        while chain[-1] in self.joints:
            chain.append(self.joints[chain[-1]].parent)
            if chain[-1] in chain[:-1]:
                raise InputError(f"{self.path}: no chain of joints: {' - '.join(chain)} is a loop")
        return chain

    def _in_root(self, frame: str) -> Pose3:
        at: Vector = np.zeros(3)
        turn = IDENTITY_XYZW
        for child in self._up(frame)[:-1]:
            joint, value = self.joints[child], self._value(self.joints[child].name)
            slide = joint.axis * value if joint.kind == "prismatic" else np.zeros(3)
            angle = value if joint.kind in ("revolute", "continuous") else 0.0
            x, y, z = (float(one) for one in joint.axis * math.sin(angle / 2))
            about = x, y, z, math.cos(angle / 2)
            at, turn = slide + rotation_from_quaternion(about) @ at, quaternion_product(about, turn)
            offset, rotation = joint.origin
            at, turn = offset + rotation_from_quaternion(rotation) @ at, quaternion_product(rotation, turn)
        return at, turn

    def _value(self, name: str, asked: tuple[str, ...] = ()) -> float:
        """Return a joint's position. Raises InputError if joints mimic each other in a ring."""
        joint = next((one for one in self.joints.values() if one.name == name), None)
        if name in self.values or joint is None or joint.mimic is None:
            return self.values.get(name, 0.0)
        if name in asked:
            raise InputError(f"{self.path}: joints {', '.join(asked)} mimic each other")
        master, multiplier, offset = joint.mimic
        if master not in {one.name for one in self.joints.values()}:
            raise InputError(
                f"{self.path}: joint {name} mimics {master}, which does not exist: set --joint {name}=VALUE"
            )
        return multiplier * self._value(master, (*asked, name)) + offset

    def _stated(self, joint: Joint) -> str:
        unit, value = UNITS.get(joint.kind, ""), self._value(joint.name)
        limits = "" if joint.limits is None else f", {joint.limits[0]:g} to {joint.limits[1]:g} {unit}"
        inside = joint.limits is None or joint.limits[0] <= value <= joint.limits[1]
        how = f", which mimics {joint.mimic[0]}," if joint.mimic and joint.name not in self.values else ""
        outside = "" if inside else ", outside of its limits"
        return f"{joint.name} ({joint.kind}{limits}){how} at {value:g} {unit}{outside}"


def read_urdf(path: Path, values: Mapping[str, float] | None = None) -> Urdf:
    """Return the frames of a URDF. Raises InputError for a file that cannot be read, or is no single, plain URDF."""
    robot = _root(path)
    joints: dict[str, Joint] = {}
    for element in robot.findall("joint"):
        parent, child = element.find("parent"), element.find("child")
        if parent is None or child is None:  # a joint of <transmission> or <gazebo> names no frames
            continue
        name = child.get("link", "")
        if name in joints:
            raise InputError(
                f"{path}: frame {name} has two parent joints, {joints[name].name} and {element.get('name')}"
            )
        joints[name] = _joint(f"{path}: joint {element.get('name')}", element, parent.get("link", ""))
    by_name = {joint.name: joint for joint in joints.values()}
    for name, value in (values or {}).items():
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, 3, 0.4) or sorted(by_name)[:10]
            raise InputError(f"{path}: has no joint {name}; it has {', '.join(near)}")
        unit = UNITS.get(by_name[name].kind, "")
        if unit and abs(value) > (most := FARTHEST_M if unit == "m" else MOST_RAD):
            raise InputError(f"--joint {name}={value:g}: is in {unit}, at most {most:.3g}")
        limits = by_name[name].limits
        if limits is not None and not limits[0] - ROUNDED <= value <= limits[1] + ROUNDED:
            raise InputError(
                f"--joint {name}={value:g}: its limits in {path} are {limits[0]:g} to {limits[1]:g} {unit}"
            )
    links = {link.get("name", ""): link for link in robot.findall("link")}
    bodies = {name: _bodies(f"{path}: link {name}", link) for name, link in links.items()}
    return Urdf(path, joints, bodies, values or {})


def _root(path: Path) -> ElementTree.Element:
    with naming(path):
        data = path.read_bytes()
    if len(data) > MAX_URDF_BYTES:
        raise InputError(f"{path}: has {len(data)} bytes, limit {MAX_URDF_BYTES}")
    data = re.sub(rb"\A(?:\s+|<!--.*?-->|\xef\xbb\xbf)+(?=<\?xml)", b"", data, flags=re.DOTALL)  # as urdfdom reads it
    bare = re.sub(rb"<!--.*?-->", b"", data, flags=re.DOTALL)
    if re.search(rb"<xacro:|=\s*[\"'][^\"'<]*\$[{(]", bare):
        data = _expanded(path)
        bare = re.sub(rb"<!--.*?-->", b"", data, flags=re.DOTALL)
    if (count := len(re.findall(rb"<robot[\s>]", bare))) > 1:
        raise InputError(f"{path}: holds {count} <robot> documents; keep the one of this robot, alone in its file")
    try:
        robot = ElementTree.fromstring(re.sub(rb"^---\s*$", b"", data, flags=re.MULTILINE))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path}: not valid XML: {error}") from error
    if robot.tag != "robot":
        raise InputError(f"{path}: the root is <{robot.tag}>, a URDF has <robot>")
    return robot


def _expanded(path: Path) -> bytes:
    """Return what the program xacro makes of a file. Raises InputError without it, and with its own words."""
    program = shutil.which("xacro")
    if program is None:
        raise InputError(
            f"{path}: holds xacro; expand it first: xacro {path.name} > robot.urdf (an installed xacro, as in a shell "
            "of ROS, is called from here)"
        )
    try:
        done = subprocess.run([program, str(path)], capture_output=True, timeout=XACRO_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{path}: {program} fails: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").split("\n")
        why = next(
            (line.strip() for line in lines if line.strip() and "warning" not in line.lower()), "no reason given"
        )
        raise InputError(f"{path}: {program} cannot expand it: {why}")
    return done.stdout


def _joint(where: str, element: ElementTree.Element, parent: str) -> Joint:
    kind = element.get("type", "")
    if kind not in KINDS:
        raise InputError(f"{where}: type is {kind!r}, expected {', '.join(KINDS)}")
    axis = np.array(_numbers(where, "axis", _attributes(element, "axis").get("xyz", "1 0 0"), 3))
    length = float(np.linalg.norm(axis))
    if kind in UNITS and length == 0.0:
        raise InputError(f"{where}: axis is 0 0 0, expected a direction")
    limit, mimic = _attributes(element, "limit"), _attributes(element, "mimic")
    low, high = (_numbers(where, key, limit.get(key, "0"), 1)[0] for key in ("lower", "upper"))
    follows = None
    if mimic:
        multiplier, offset = (
            _numbers(where, key, mimic.get(key, usual), 1)[0] for key, usual in (("multiplier", "1"), ("offset", "0"))
        )
        follows = mimic.get("joint", ""), multiplier, offset
    limits = (low, high) if limit and kind in ("revolute", "prismatic") else None
    origin = _origin(where, element)
    doubt = _doubt(where, kind, origin[0], _attributes(element, "origin"))
    return Joint(element.get("name", ""), kind, parent, origin, doubt, axis / (length or 1.0), limits, follows)


def _doubt(where: str, kind: str, xyz_m: Vector, origin: Mapping[str, str]) -> str:
    if kind in UNSTATED:
        return f"is {kind}, so the URDF does not state where its child is: make it fixed"
    if other := sorted(set(origin) - ORIGIN):
        return f"its origin has {other[0]!r}, a URDF has {', '.join(sorted(ORIGIN))}"
    if (most_rad := max(map(abs, _numbers(where, "rpy", origin.get("rpy", "0 0 0"), 3)))) > MOST_RAD:
        return f"rpy has {most_rad:g}, more than a whole turn: a URDF uses radians, not degrees"
    if (away_m := float(np.linalg.norm(xyz_m))) > FARTHEST_M:
        return f"xyz is {away_m:g} m long, at most {FARTHEST_M:g}: a URDF uses metres, not millimetres"
    return ""


def _bodies(where: str, link: ElementTree.Element) -> list[Body]:
    found = []
    for body in (*link.findall("collision"), *link.findall("visual")):
        for shape in body.findall("geometry/*"):
            size: Sequence[float] = ()
            if shape.tag in LENGTHS:
                size = [
                    number for name in LENGTHS[shape.tag] for number in _numbers(where, name, shape.get(name, ""), 1)
                ]
            elif shape.tag == "box":
                size = _numbers(where, "size", shape.get("size", ""), 3)
            elif shape.tag == "mesh":
                size = _numbers(where, "scale", shape.get("scale", "1 1 1"), 3)
            found.append(Body(body.tag, shape.tag, _origin(where, body), tuple(size), shape.get("filename", "")))
    return found


def _attributes(element: ElementTree.Element, tag: str) -> Mapping[str, str]:
    found = element.find(tag)
    return {} if found is None else found.attrib


def _origin(where: str, element: ElementTree.Element) -> Pose3:
    values = _attributes(element, "origin")
    translation = np.array(_numbers(where, "xyz", values.get("xyz", "0 0 0"), 3))
    if "quat_xyzw" not in values:
        roll, pitch, yaw = _numbers(where, "rpy", values.get("rpy", "0 0 0"), 3)
        return translation, quaternion_from_rpy(roll, pitch, yaw)
    if "rpy" in values:
        raise InputError(f"{where}: origin states both rpy and quat_xyzw, expected one of them")
    x, y, z, w = _numbers(where, "quat_xyzw", values["quat_xyzw"], 4)
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    if abs(norm - 1.0) > NORM_TOLERANCE:
        raise InputError(f"{where}: quat_xyzw is {values['quat_xyzw']!r} of norm {norm:.3g}, expected 1")
    return translation, (x / norm, y / norm, z / norm, w / norm)


def _numbers(where: str, name: str, text: str, count: int) -> list[float]:
    words = {1: "one number", 3: "three numbers", 4: "four numbers"}[count]
    try:
        found = [float(word) for word in text.split()]
    except ValueError:
        found = []
    if len(found) != count:
        raise InputError(f"{where}: {name} is {text!r}, expected {words}")
    if not all(map(math.isfinite, found)):
        raise InputError(f"{where}: {name} is {text!r}, expected finite numbers")
    return found
