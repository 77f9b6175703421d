"""Makes and compiles what has no wheel, actions of nav2_msgs and hazards of bases: `made_messages.py FOLDER [humble]`.

Run by the Python of the ROS 2 wheels, which hold the generators. The results are packages in FOLDER.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy

PREFIX = Path(sys.prefix)
os.environ.setdefault("AMENT_PREFIX_PATH", str(PREFIX))

from rosidl_generator_c.cli import GenerateC  # noqa: E402
from rosidl_generator_py.cli import GeneratePython  # noqa: E402
from rosidl_typesupport_c.cli import GenerateCTypesupport  # noqa: E402
from rosidl_typesupport_fastrtps_c.cli import GenerateFastRTPSCTypesupport  # noqa: E402

POSE, DURATION = "geometry_msgs::msg::PoseStamped", "builtin_interfaces::msg::Duration"
HUMBLE = sys.argv[2:] == ["humble"]
RESULT = "std_msgs::msg::Empty result;" if HUMBLE else "uint16 error_code; string error_msg;"
FEEDBACK = (
    f"{POSE} current_pose; {DURATION} navigation_time; {DURATION} estimated_time_remaining; "
    "int16 number_of_recoveries; float distance_remaining;"
)
#   action                  goal, result, feedback: the public interface of Nav2, Kilted or Humble, in its order
ACTIONS = {
    "NavigateToPose": (f"{POSE} pose; string behavior_tree;", RESULT, FEEDBACK),
    "NavigateThroughPoses": (
        f"sequence<{POSE}> poses; string behavior_tree;",
        RESULT,
        f"{FEEDBACK} int16 number_of_poses_remaining;",
    ),
}
HEADER = "std_msgs::msg::Header header;"
HAZARD = "irobot_create_msgs::msg::HazardDetection"
#   package                     message, its fields: the public interfaces of iRobot and Kobuki
MESSAGES = {
    "irobot_create_msgs": {
        "HazardDetection": f"{HEADER} uint8 type;",
        "HazardDetectionVector": f"{HEADER} sequence<{HAZARD}> detections;",
    },
    "kobuki_ros_interfaces": {
        "BumperEvent": "uint8 bumper; uint8 state;",
        "CliffEvent": "uint8 sensor; uint8 state; uint16 bottom;",
        "WheelDropEvent": "uint8 wheel; uint8 state;",
    },
}
INCLUDED = {
    "builtin_interfaces/msg/Duration", "geometry_msgs/msg/PoseStamped", "std_msgs/msg/Header", "std_msgs/msg/Empty",
}  # fmt: skip
SUPPORT = "rosidl_typesupport_fastrtps_c"
PACKAGES = ("geometry_msgs", "std_msgs", "builtin_interfaces", "action_msgs", "unique_identifier_msgs", "service_msgs")
FLAGS = ("-shared", "-fPIC", "-O0", "-w", "-Wl,--unresolved-symbols=ignore-all")


def idl_of(package, room, name):
    """Return the definition of an action or a message."""
    if room == "action":
        kinds = zip(("Goal", "Result", "Feedback"), ACTIONS[name], strict=True)
        bodies = {f"{name}_{kind}": body for kind, body in kinds}
    else:
        bodies = {name: MESSAGES[package][name]}
    structs = "".join(f"struct {kind} {{ {body} }};\n" for kind, body in bodies.items())
    used = sorted(one for one in INCLUDED | {HAZARD.replace("::", "/")} if f"{one.replace('/', '::')}" in structs)
    includes = "".join(f'#include "{one}.idl"\n' for one in used)
    return f"{includes}module {package} {{ module {room} {{\n{structs}}}; }};\n"


def generate(folder, package, room, names):
    """Write the sources of a package into a folder."""
    idl = folder / "idl" / package
    (idl / room).mkdir(parents=True)
    for name in names:
        (idl / room / f"{name}.idl").write_text(idl_of(package, room, name))
    generators = (
        GenerateC("c"),
        GenerateCTypesupport("c", typesupport_implementations=[SUPPORT]),
        GenerateFastRTPSCTypesupport("fastrtps_c"),
        GeneratePython("py", typesupport_implementations=["rosidl_typesupport_c", SUPPORT]),
    )
    out = folder / package
    out.mkdir()
    files = [f"{idl}:{room}/{name}.idl" for name in names]
    for generator in generators:
        generator.generate(package, files, [str(PREFIX / "share"), str(folder / "idl")], out)
    (out / "__init__.py").touch()


def libraries(kind):
    """Return the linker's arguments of one kind of library of the packages used."""
    return [f"-l{package}__rosidl_{kind}" for package in PACKAGES]


def compile_all(folder, package, room):
    """Compile the library of a package's types, and Python's part of it."""
    out = folder / package
    include = [PREFIX / "include", *(PREFIX / "include").iterdir(), folder]
    include += [sysconfig.get_path("include"), numpy.get_include()]
    paths = [*(f"-I{path}" for path in include), f"-L{PREFIX / 'lib'}", f"-L{folder}"]
    detail = out / room / "detail"
    plain = [file for end in ("functions", "description", "type_support") for file in detail.glob(f"*__{end}.c")]
    support = [*(out / room).glob("*__type_support.cpp"), *detail.glob("*__type_support_c.cpp")]
    linked = [*libraries("generator_c"), *libraries("typesupport_c"), *libraries("typesupport_fastrtps_c")]
    linked += ["-lrosidl_runtime_c", "-lrcutils", "-lrosidl_typesupport_c", "-lfastcdr"]
    linked += ["-lrosidl_typesupport_fastrtps_c", "-lrosidl_typesupport_fastrtps_cpp"]
    library = folder / f"lib{package}.so"
    sources = ["-x", "c", *plain, "-x", "c++", *support, "-x", "none"]
    run("g++", *FLAGS, *paths, *sources, "-o", library, *linked)
    linked = [f"-l{package}", f"-Wl,-rpath,{folder}", *libraries("generator_py"), *libraries("typesupport_c")]
    for name in ("rosidl_typesupport_c", SUPPORT):
        sources = [out / f"_{package}_s.ep.{name}.c", *(out / room).glob("*_s.c")]
        run("gcc", *FLAGS, *paths, *sources, "-o", out / f"{package}_s__{name}.so", *linked, "-lrosidl_runtime_c")


def run(*command):
    """Run a compiler; its errors are shown."""
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    for package, room, names in [("nav2_msgs", "action", ACTIONS), *((one, "msg", MESSAGES[one]) for one in MESSAGES)]:
        generate(target, package, room, names)
        compile_all(target, package, room)
