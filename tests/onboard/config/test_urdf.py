"""URDFs of others: the floor, moving joints, quaternions, axes of a camera's frame, and files that are refused."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from onboard.commands.mounts import mounts_command, placed_camera
from onboard.config.mounts import BODY_FROM_OPTICAL_XYZW
from onboard.config.urdf import read_urdf
from onboard.config.urdf_floor import Floor, floor_of, size_of
from onboard.values.errors import InputError
from onboard.values.geometry import quaternion_from_rpy, quaternion_product, rotation_from_quaternion

Text = str
OPTICAL = "-1.5707963267948966 0 -1.5707963267948966"


def joint(
    name: str, parent: str, child: str, xyz: str = "0 0 0", rpy: str = "0 0 0", kind: str = "fixed", more: str = ""
) -> Text:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/>{more}</joint>'
    )


def wheel(
    name: str, radius: float, z_m: float, shape: str = "cylinder", part: str = "collision", lift: float = 0.0
) -> Text:
    """Return a wheel whose axle is so high in base_link; lift: of its body in its link."""
    body = f'<{part}><origin xyz="0 0 {lift}"/><geometry><{shape} radius="{radius}" length="0.05"/></geometry></{part}>'
    return f'<link name="{name}">{body}</link>' + joint(
        name, "base_link", name, f"0.1 0.2 {z_m}", "-1.57 0 0", "continuous"
    )


def read(folder: Path, *parts: Text, **values: float):
    path = folder / "robot.urdf"
    path.write_text(f'<?xml version="1.0"?>\n<robot name="r">{"".join(parts)}</robot>')
    return read_urdf(path, values)


CAMERA = joint("mast", "base_link", "camera", "0.2 0 0.5")
FOOTPRINT_BELOW = joint("foot", "base_link", "base_footprint", "0 0 -0.1")
FOOTPRINT_ABOVE = joint("foot", "base_footprint", "base_link", "0 0 0.01")
#   robot, its parts, base frame, height of the base frame above the floor, words of what says so
FLOORS = [
    ("jackal", [wheel("front_left_wheel_link", 0.098, 0.0345), wheel("rear_right_wheel_link", 0.098, 0.0345)],
     "base_link", 0.0635, "wheels front_left_wheel_link, rear_right_wheel_link (radius 0.098 m)"),
    ("husky", [wheel("wheel", 0.1651, 0.03282)], "base_link", 0.13228, "wheels wheel (radius 0.1651 m)"),
    ("turtlebot", [FOOTPRINT_ABOVE, wheel("wheel_left_link", 0.033, 0.023)], "base_link", 0.01, "frame base_footprint"),
    ("its footprint", [FOOTPRINT_ABOVE, wheel("wheel_left_link", 0.033, 0.023)], "base_footprint", 0.0, "footprint"),
    ("footprint below", [FOOTPRINT_BELOW], "base_link", 0.1, "frame base_footprint"),
    ("base is below", [FOOTPRINT_BELOW], "base_footprint", 0.0, "frame base_footprint"),
    ("namespaced", [joint("f", "base_link", "r1_base_footprint", "0 0 -0.2")], "base_link", 0.2, "r1_base_footprint"),
    ("they contradict", [FOOTPRINT_BELOW, wheel("wheel", 0.3, 0.0)], "base_link", 0.1, "end at -0.3 m: check it"),
    ("visual alone", [wheel("wheel", 0.1, 0.05, part="visual")], "base_link", 0.05, "wheels wheel"),
    ("a lifted caster", [wheel("wheel", 0.1, 0.0), wheel("caster", 0.02, -0.06, "sphere")],
     "base_link", 0.1, "wheels wheel ("),
    ("a low caster", [wheel("wheel", 0.1, 0.0), wheel("caster", 0.02, -0.085, "sphere")],
     "base_link", 0.105, "caster, wheel"),
    ("by its joint", [wheel("rueda", 0.1, 0.02).replace('<joint name="', '<joint name="wheel_')],
     "base_link", 0.08, "rueda"),
    ("a lidar that turns", [wheel("head", 0.05, 0.6)], "base_link", None, "no footprint frame and no wheel"),
    ("nothing", [], "base_link", None, "no footprint frame and no wheel"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parts", "base", "height_m", "words"), FLOORS, ids=[row[0] for row in FLOORS])
def test_heights_count_from_the_floor(name, parts, base, height_m, words, tmp_path):
    urdf = read(tmp_path, CAMERA, *parts)
    table, notes = placed_camera(urdf, base, "front", "camera")
    assert words in " ".join(notes)
    above_base_m = 0.5 + (0.01 if name == "its footprint" else 0.1 if name == "base is below" else 0.0)
    assert table["translation_m"] == pytest.approx([0.2, 0.0, above_base_m + (height_m or 0.0)], abs=1e-6)
    if height_m is not None:
        assert floor_of(urdf, base).base_height_m == pytest.approx(height_m, abs=1e-6)
    stated, notes = placed_camera(urdf, base, "front", "camera", floor_m=0.3)
    assert stated["translation_m"][2] == pytest.approx(above_base_m + 0.3)
    assert "by --floor-m" in " ".join(notes)


def turning(
    name: str, geometry: str, at: str = "0 0.2 0", axis: str = "0 1 0", kind: str = "continuous", rpy: str = "0 0 0"
) -> Text:
    """Return a link of one shape on a joint of base_link. rpy: of the shape in the link."""
    body = f'<collision><origin rpy="{rpy}"/><geometry>{geometry}</geometry></collision>'
    return f'<link name="{name}">{body}</link>' + joint(
        name, "base_link", name, at, kind=kind, more=f'<axis xyz="{axis}"/>'
    )


def cylinder(radius: float) -> Text:
    return f'<cylinder radius="{radius}" length="0.05"/>'


def stl(file: Path, radius: float, stretch: float = 1.0, unit: float = 1.0) -> Path:
    """Write a wheel about y as one triangle fan of a binary STL."""
    turn = np.linspace(0.0, 2.0 * np.pi, 49)
    rim = np.column_stack([np.cos(turn), 0.0 * turn, stretch * np.sin(turn)]) * radius / unit
    rows = np.zeros(48, np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")]))
    rows["corners"] = np.stack([0.0 * rim[1:], rim[:-1], rim[1:]], axis=1)
    file.write_bytes(bytes(80) + np.uint32(48).tobytes() + rows.tobytes())
    return file


LEVEL, BOX, NO_MESH = "1.5707963 0 0", '<box size="0.2 0.2 0.2"/>', '<mesh filename="package://no_robot/wheel.stl"/>'
MESH, OVAL = '<mesh filename="wheel.stl" scale="0.001 0.001 0.001"/>', '<mesh filename="oval.stl"/>'
IN_PACKAGE = '<mesh filename="package://my_robot/wheel.stl" scale="0.001 0.001 0.001"/>'
RIGHT = "0 -0.2 0"
SMALL = turning("caster_ball", '<sphere radius="0.03"/>', "-0.2 0 -0.05", kind="fixed")
#   robot, its parts, height of the base frame above the floor, words of the note
WHEELS = [
    ("meshes before a caster's radius", [turning("wheel_l", MESH), turning("wheel_r", MESH, RIGHT), SMALL], 0.12,
     "by wheels wheel_l, wheel_r (mesh wheel.stl, radius 0.12 m)"),
    ("a package", [turning("wheel", IN_PACKAGE), SMALL], 0.12, "mesh wheel.stl"),
    ("meshes that are missing", [turning("wheel_l", NO_MESH), SMALL], None,
     "the height of its wheels is unknown: wheel_l (mesh wheel.stl cannot be read), so heights are measured from "
     "base_link"),
    ("one mesh is missing", [turning("wheel_l", cylinder(0.1), rpy=LEVEL), turning("wheel_r", NO_MESH, RIGHT)], 0.1,
     "but wheel_r (mesh wheel.stl cannot be read) was not used: check it"),
    ("a mesh that is not round", [turning("wheel_l", OVAL)], None, "mesh oval.stl is not round: 0.24 m long"),
    ("a box", [turning("wheel_l", BOX)], None, "wheel_l (is a box)"),
    ("upright on its axle", [turning("wheel_l", cylinder(0.1))], None, "wheel_l (stands upright)"),
    ("no body", [turning("wheel_l", "")], None, "the height of its wheels is unknown: wheel_l (has no body)"),
    ("wheels of two heights",
     [turning("wheel_l", cylinder(0.1), rpy=LEVEL), turning("wheel_r", cylinder(0.14), RIGHT, rpy=LEVEL)], 0.14,
     "but wheel_l ends at -0.1 m: check it"),
    *((f"a flywheel between two wheels, {at}", [turning("wheel_l", cylinder(0.1), rpy=LEVEL),
       turning("wheel_r", cylinder(0.1), RIGHT, rpy=LEVEL), turning("flywheel", cylinder(0.3), at, rpy=LEVEL)], 0.1,
       "by wheels wheel_l, wheel_r (radius 0.1 m), but flywheel ends at -0.3 m: check it")
      for at in ("0 0 0", "0.1 0 0")),
    ("a caster below", [turning("wheel", cylinder(0.03), rpy=LEVEL), SMALL], 0.03,
     "but caster_ball ends lower, at -0.08 m: check it"),
    ("a caster alone", [SMALL], 0.08, "by wheels caster_ball (radius 0.03 m)"),
    ("a swivel", [turning("caster_swivel", cylinder(0.3), axis="0 0 1"), turning("wheel", cylinder(0.1), rpy=LEVEL)],
     0.1, "by wheels wheel (radius 0.1 m): heights"),
    ("a swivel alone", [turning("caster_swivel", cylinder(0.3), axis="0 0 1")], None, "no wheel with a radius"),
    ("a post", [turning("wheel_post", cylinder(0.3), kind="fixed")], None, "no wheel with a radius"),
    ("one axle, no names",
     [turning("rueda_izq", cylinder(0.1), rpy=LEVEL), turning("rueda_der", cylinder(0.1), RIGHT, rpy=LEVEL)],
     0.1, "by wheels rueda_der, rueda_izq"),
    ("two arms", [turning("elbow_l", cylinder(0.1), "0.3 0.2 0.5"), turning("elbow_r", cylinder(0.1), "0.1 -0.2 0.5")],
     None, "no wheel with a radius"),
    ("an arm that is stretched out",
     [turning("upper_roll", cylinder(0.1), "0.3 0 0.5", "1 0 0", rpy=LEVEL),
      turning("fore_roll", cylinder(0.1), "0.3 0 0", "1 0 0", rpy=LEVEL).replace('parent link="base_link"',
      'parent link="upper_roll"')], None, "no wheel with a radius"),
    ("limits of a wheel",
     [turning("wheel", cylinder(0.1), kind="revolute", rpy=LEVEL).replace("</joint>",
      '<limit lower="-1e16" upper="1e16"/></joint>'), SMALL], 0.1, "by wheels wheel ("),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parts", "height_m", "words"), WHEELS, ids=[row[0] for row in WHEELS])
def test_the_floor_is_where_wheels_roll(name, parts, height_m, words, tmp_path):
    pytest.importorskip("trimesh")
    folder = tmp_path / "my_robot" / "urdf"
    folder.mkdir(parents=True)
    stl(folder / "oval.stl", 0.12, 0.5)
    for one in (folder, folder.parent):
        stl(one / "wheel.stl", 0.12, unit=0.001)
    urdf = read(folder, CAMERA, *parts)
    _, notes = placed_camera(urdf, "base_link", "front", "camera")
    assert words in notes[0]
    assert floor_of(urdf, "base_link").base_height_m == (
        None if height_m is None else pytest.approx(height_m, abs=1e-6)
    )


@pytest.mark.parametrize(
    "parts",
    [[joint("f", "base_link", "base_footprint", "0 0 0.3")], [wheel("wheel", 0.1, 0.5)]],
    ids=["frame", "wheel"],
)
def test_a_base_frame_below_the_floor_is_refused(parts, tmp_path):
    with pytest.raises(InputError, match=r"base_link would be 0\.[34] m below the floor, by .*--floor-m HEIGHT"):
        placed_camera(read(tmp_path, CAMERA, *parts), "base_link", "front", "camera")


def test_a_mesh_needs_its_library_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    stl(tmp_path / "wheel.stl", 0.12, unit=0.001)
    floor = floor_of(read(tmp_path, turning("wheel", MESH)), "base_link")
    assert floor.base_height_m is None
    assert "mesh wheel.stl needs trimesh: pip install 'onboard[mesh]'" in floor.source


def test_a_joint_beyond_its_limits_and_one_without_its_master_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"--joint lift=2: its limits in .*robot\.urdf are 0\.2 to 0\.9 m"):
        read(tmp_path, LIFT, lift=2.0)
    for name, words in {"lift": "m, at most 5", "tilt": "rad, at most 6.28"}.items():
        wide = (LIFT + TILT.format("")).replace("0.9", "900").replace('upper="1"', 'upper="180"')
        with pytest.raises(InputError, match=f"--joint {name}=90: is in {words}"):
            read(tmp_path, wide, **{name: 90.0})
    urdf = read(tmp_path, LIFT, TILT.format('<mimic joint="gone"/>'))
    with pytest.raises(InputError, match="joint tilt mimics gone, which does not exist: set --joint tilt=VALUE"):
        urdf.pose("base_link", "camera")
    assert read(tmp_path, LIFT, TILT.format('<mimic joint="gone"/>'), tilt=0.0).pose("base_link", "camera")


LIFT = joint(
    "lift", "base_link", "mast", "0 0 0.3", kind="prismatic", more='<axis xyz="0 0 2"/><limit lower="0.2" upper="0.9"/>'
)
TILT = joint(
    "tilt", "mast", "camera", "0.1 0 0", kind="revolute", more='<axis xyz="0 1 0"/><limit lower="-1" upper="1"/>{}'
)
LIFTS, TILTS = "lift (prismatic, 0.2 to 0.9 m)", "tilt (revolute, -1 to 1 rad)"
#   name, mimic of the tilt, stated positions, height, pitch, words
MOVING = [
    ("at zero", "", {}, 0.3, 0.0, [f"{LIFTS} at 0 m, outside of its limits", f"{TILTS} at 0 rad:"]),
    ("stated", "", {"lift": 0.5, "tilt": -0.2}, 0.8, -0.2, [f"{LIFTS} at 0.5 m;", "at -0.2 rad:"]),
    ("an offset", '<mimic joint="lift" multiplier="0" offset="0.35"/>', {}, 0.3, 0.35, ["mimics lift, at 0.35 rad"]),
    ("a multiplier", '<mimic joint="lift" multiplier="-0.5" offset="0.1"/>', {"lift": 0.4}, 0.7, -0.1, ["at -0.1 rad"]),
    ("mimics plainly", '<mimic joint="lift"/>', {"lift": 0.4}, 0.7, 0.4, ["which mimics lift, at 0.4 rad"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mimic", "values", "z_m", "pitch", "words"), MOVING, ids=[row[0] for row in MOVING])
def test_moving_joints_are_named_and_taken_where_they_are(name, mimic, values, z_m, pitch, words, tmp_path):
    urdf = read(tmp_path, LIFT, TILT.format(mimic), **values)
    table, notes = placed_camera(urdf, "base_link", "front", "camera", floor_m=0.0)
    expected = quaternion_product(quaternion_from_rpy(0.0, pitch, 0.0), BODY_FROM_OPTICAL_XYZW)
    assert table["translation_m"] == pytest.approx([0.1, 0.0, z_m])
    assert table["rotation_xyzw"] == pytest.approx(expected, abs=1e-9)
    assert all(word in notes[0] for word in words), notes
    assert "\n" not in notes[0]


SDF = '<gazebo><joint name="ball" type="ball"><parent>a</parent><child>b</child></joint></gazebo>'
ELSEWHERE = SDF + joint("arm", "base_link", "hand", "900 0 0", "0 90 0", "floating")
#   joint between base and camera, words
UNSTATED = [
    (joint("mast", "base_link", "camera", "0.2 0 0.5", "0 -90 0"), "joint mast: rpy has 90, more than a whole turn"),
    (joint("mast", "base_link", "camera", "0.2 0 0.5", "0 0 6.2832"), None),
    (joint("mast", "base_link", "camera", "150 0 300"), "joint mast: xyz is 335.41 m long, at most 5"),
    (joint("mast", "base_link", "camera", kind="floating"), "joint mast: is floating, so the URDF does not state"),
    (joint("mast", "base_link", "camera", kind="planar"), "joint mast: is planar"),
    (joint("mast", "base_link", "camera").replace("rpy", "wxyz"), "joint mast: its origin has 'wxyz', a URDF has quat"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), UNSTATED)
def test_a_joint_in_other_units_or_at_no_stated_place_is_refused(text, words, tmp_path):
    urdf = read(tmp_path, text, ELSEWHERE)
    if words is None:
        assert urdf.pose("base_link", "camera")
    else:
        with pytest.raises(InputError, match=words):
            urdf.pose("base_link", "camera")


def test_joints_beside_the_chain_are_not_named(tmp_path):
    arm = joint("arm", "base_link", "hand", kind="revolute")
    assert placed_camera(read(tmp_path, CAMERA, arm), "base_link", "front", "camera", 0.0)[1] == [
        "floor: base_link is 0 m above it, by --floor-m: heights are measured from there"
    ]


#   name of the frame, its rpy, stated axes, view axis in the base, whether a note says so
AXES = [
    ("depth_sensor_link", OPTICAL, "", (1, 0, 0), True),
    ("front_optical_frame", OPTICAL, "", (1, 0, 0), False),
    ("camera_link", "0 0 0", "", (1, 0, 0), False),
    ("camera_link", "0 0.5 0", "", (math.cos(0.5), 0, -math.sin(0.5)), False),
    ("left_sensor", "-1.5707963267948966 0 0", "", (0, 1, 0), True),
    ("rolled_camera", "-1.5707963267948966 0 0", ":body", (1, 0, 0), False),
    ("unturned_optical_frame", "0 0 0", "", (1, 0, 0), True),
    ("sky_optical_frame", "0 0 0", ":optical", (0, 0, 1), False),
    ("down_optical_frame", "3.14159265358979 0 0", "", (0, 0, -1), False),
]  # fmt: skip


@pytest.mark.parametrize(("frame", "rpy", "stated", "view", "noted"), AXES)
def test_the_upright_axis_tells_an_optical_frame(frame, rpy, stated, view, noted, tmp_path):
    urdf = read(tmp_path, joint("j", "base_link", frame, "0 0 1", rpy))
    table, notes = placed_camera(urdf, "base_link", "front", frame + stated, floor_m=0.0)
    assert rotation_from_quaternion(tuple(table["rotation_xyzw"]))[:, 2] == pytest.approx(view, abs=1e-6)
    assert any("otherwise use --camera front=" in note for note in notes) == noted


@pytest.mark.parametrize("norm", [1.0, 0.95, 1.09])
def test_a_quaternion_on_an_origin(norm, tmp_path):
    x, y, z, w = (norm * one for one in quaternion_from_rpy(0.1, 0.2, 0.3))
    text = joint("j", "base_link", "camera").replace('rpy="0 0 0"', f'quat_xyzw="{x} {y} {z} {w}"')
    assert read(tmp_path, text).pose("base_link", "camera")[1] == pytest.approx(quaternion_from_rpy(0.1, 0.2, 0.3))


PLAIN = 'rpy="0 0 0"'


def turned(origin: str) -> Text:
    """Return a URDF whose joint states `origin` in place of rpy."""
    return f"<robot>{joint('j', 'a', 'b').replace(PLAIN, origin)}</robot>"


TWO = "<robot></robot>\n<robot></robot>"
HEADS = '<?xml version="1.0"?><robot name="a"/>\n<?xml version="1.0"?><robot name="b"/>'
NO_AXIS = joint("j", "a", "b", kind="prismatic", more='<axis xyz="0 0 0"/>')
#   mistake, the file, words
REFUSED = [
    ("norm", turned('quat_xyzw="0 0 0 1.3"'), "norm 1.3"),
    ("zero", turned('quat_xyzw="0 0 0 0"'), "norm 0"),
    ("no w", turned('quat_xyzw="0 0 0.5"'), "expected four numbers"),
    ("both", turned('quat_xyzw="0 0 0 1" rpy="0 0 0"'), "both rpy and quat_xyzw"),
    ("two documents", TWO, "holds 2 <robot> documents"),
    ("two with heads", HEADS, "holds 2 <robot> documents"),
    ("no namespace", "<robot><xacro:arm/></robot>", "holds xacro; expand it first"),
    ("an argument", '<robot><joint name="j"><origin xyz="0 0 ${h}"/></joint></robot>', "holds xacro"),
    ("two joints", f"<robot>{joint('j', 'a', 'b')}{joint('k', 'c', 'b')}</robot>", "has two parent joints, j and k"),
    ("no axis", f"<robot>{NO_AXIS}</robot>", "axis is 0 0 0"),
    ("a capital", f"<robot>{joint('j', 'a', 'b', kind='Fixed')}</robot>", "joint j: type is 'Fixed', expected fixed"),
    ("no type", f"<robot>{joint('j', 'a', 'b', kind='')}</robot>", "joint j: type is '', expected fixed"),
]


@pytest.mark.parametrize(("name", "text", "words"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_file_is_refused_in_one_line(name, text, words, tmp_path):
    (tmp_path / "robot.urdf").write_text(text)
    with pytest.raises(InputError) as raised:
        read_urdf(tmp_path / "robot.urdf")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def body(link: str, shape: str, xyz: str = "0 0 0", rpy: str = "0 0 0", part: str = "collision") -> Text:
    return (
        f'<link name="{link}"><{part}><origin xyz="{xyz}" rpy="{rpy}"/><geometry><{shape}/></geometry></{part}></link>'
    )


SIDE = "1.5707963267948966 0 0"
#   name, the links, keys that are found, words
SIZES = [
    ("a cylinder", body("base_link", 'cylinder radius="0.17" length="0.2"'), {"footprint_radius_m": 0.17}, "circle"),
    ("a ball", body("base_link", 'sphere radius="0.171"'), {"footprint_radius_m": 0.18}, "circle of 0.18 m"),
    ("a box ahead", body("base_link", 'box size="0.6 0.4 0.2"', "0.1 0 0"),
     {"footprint_m": [[0.4, 0.2], [-0.2, 0.2], [-0.2, -0.2], [0.4, -0.2]]}, "0.6 x 0.4 m, 0.4 m of it ahead"),
    ("a wheel that lies across", body("base_link", 'box size="0.6 0.3 0.2"')
     + body("w", 'cylinder radius="0.1" length="0.1"', rpy=SIDE)
     + joint("j", "base_link", "w", "0.2 0.25 0", kind="continuous"),
     {"footprint_m": [[0.3, 0.3], [-0.3, 0.3], [-0.3, -0.15], [0.3, -0.15]]}, "0.6 x 0.45 m"),
    ("a picture, where a link has no collision", body("base_link", 'box size="0.5 0.2 0.2"', part="visual"),
     {"footprint_m": [[0.25, 0.1], [-0.25, 0.1], [-0.25, -0.1], [0.25, -0.1]]}, "0.5 x 0.2 m"),
    ("a floor plate", body("base_link", 'box size="20 20 0.01"'), {}, "reach 14.15 m from base_link, limit 3"),
    ("another robot", body("base_link", 'sphere radius="0.2"') + body("dock", 'box size="4 4 1"'),
     {"footprint_radius_m": 0.2}, "circle"),
    ("no shape", '<link name="base_link"/>', {}, "no link has a shape"),
    ("a mesh that is not there", body("base_link", 'mesh filename="package://a/b.stl"'), {}, "mesh b.stl"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "links", "keys", "words"), SIZES, ids=[row[0] for row in SIZES])
def test_the_size_is_that_of_the_shapes(name, links, keys, words, tmp_path):
    (tmp_path / "robot.urdf").write_text(f"<robot>{links}</robot>")
    size = size_of(read_urdf(tmp_path / "robot.urdf"), "base_link", Floor(None, ""))
    assert size.keys == keys
    assert words in size.words


def test_a_comment_before_the_declaration_is_read_as_ros_reads_it(tmp_path):
    (tmp_path / "robot.urdf").write_text(f"\ufeff<!-- changed -->\n<?xml version='1.0'?>\n<robot>{CAMERA}</robot>")
    assert read_urdf(tmp_path / "robot.urdf").pose("base_link", "camera")[0] == pytest.approx([0.2, 0.0, 0.5])


def test_what_ros_prints_behind_a_document_is_left_out(tmp_path):
    (tmp_path / "robot.urdf").write_text(f'<robot xmlns:xacro="http://ros.org/wiki/xacro">{CAMERA}</robot>\n---\n')
    assert read_urdf(tmp_path / "robot.urdf").pose("base_link", "camera")[0] == pytest.approx([0.2, 0.0, 0.5])


def test_the_written_file_says_what_its_heights_are_from(tmp_path, capsys):
    read(tmp_path, CAMERA, wheel("left_wheel", 0.1, 0.02))
    with pytest.raises(InputError, match="has no joint lft; it has left_wheel"):
        mounts_command(tmp_path / "robot.urdf", ["front=camera"], joint=["lft=1"])
    mounts_command(tmp_path / "robot.urdf", ["front=camera"], "base_link", tmp_path / "out.toml")
    said = "floor: base_link is 0.08 m above it, by wheels left_wheel (radius 0.1 m): heights are measured from there"
    assert said in capsys.readouterr().err
    assert f"# {said}" in (tmp_path / "out.toml").read_text()
