"""Makes and compiles two actions of nav2_msgs, which has no wheel: `nav2_actions.py FOLDER`.

Run by the Python of the ROS 2 wheels, which hold the generators. The result is the package `nav2_msgs` in FOLDER.
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
RESULT = "uint16 error_code; string error_msg;"
FEEDBACK = (
    f"{POSE} current_pose; {DURATION} navigation_time; {DURATION} estimated_time_remaining; "
    "int16 number_of_recoveries; float distance_remaining;"
)
#   action                  goal, result, feedback: the public interface of Nav2 (Kilted), fields in its order
ACTIONS = {
    "NavigateToPose": (f"{POSE} pose; string behavior_tree;", RESULT, FEEDBACK),
    "NavigateThroughPoses": (
        f"sequence<{POSE}> poses; string behavior_tree;",
        RESULT,
        f"{FEEDBACK} int16 number_of_poses_remaining;",
    ),
}
INCLUDES = '#include "builtin_interfaces/msg/Duration.idl"\n#include "geometry_msgs/msg/PoseStamped.idl"\n'
SUPPORT = "rosidl_typesupport_fastrtps_c"
PACKAGES = ("geometry_msgs", "std_msgs", "builtin_interfaces", "action_msgs", "unique_identifier_msgs", "service_msgs")
FLAGS = ("-shared", "-fPIC", "-O0", "-w", "-Wl,--unresolved-symbols=ignore-all")


def generate(folder):
    """Write the sources of the package into a folder."""
    idl = folder / "idl"
    (idl / "action").mkdir(parents=True)
    for name, parts in ACTIONS.items():
        kinds = zip(("Goal", "Result", "Feedback"), parts, strict=True)
        structs = "".join(f"struct {name}_{kind} {{ {body} }};\n" for kind, body in kinds)
        text = f"{INCLUDES}module nav2_msgs {{ module action {{\n{structs}}}; }};\n"
        (idl / "action" / f"{name}.idl").write_text(text)
    generators = (
        GenerateC("c"),
        GenerateCTypesupport("c", typesupport_implementations=[SUPPORT]),
        GenerateFastRTPSCTypesupport("fastrtps_c"),
        GeneratePython("py", typesupport_implementations=["rosidl_typesupport_c", SUPPORT]),
    )
    out = folder / "nav2_msgs"
    out.mkdir()
    for generator in generators:
        generator.generate("nav2_msgs", [f"{idl}:action/{name}.idl" for name in ACTIONS], [str(PREFIX / "share")], out)
    (out / "__init__.py").touch()


def libraries(kind):
    """Return the linker's arguments of one kind of library of the packages used."""
    return [f"-l{package}__rosidl_{kind}" for package in PACKAGES]


def compile_all(folder):
    """Compile the library of the types, and Python's part of it."""
    out = folder / "nav2_msgs"
    include = [PREFIX / "include", *(PREFIX / "include").iterdir(), folder]
    include += [sysconfig.get_path("include"), numpy.get_include()]
    paths = [*(f"-I{path}" for path in include), f"-L{PREFIX / 'lib'}", f"-L{folder}"]
    detail = out / "action" / "detail"
    plain = [file for end in ("functions", "description", "type_support") for file in detail.glob(f"*__{end}.c")]
    support = [*(out / "action").glob("*__type_support.cpp"), *detail.glob("*__type_support_c.cpp")]
    linked = [*libraries("generator_c"), *libraries("typesupport_c"), *libraries("typesupport_fastrtps_c")]
    linked += ["-lrosidl_runtime_c", "-lrcutils", "-lrosidl_typesupport_c", "-lfastcdr"]
    linked += ["-lrosidl_typesupport_fastrtps_c", "-lrosidl_typesupport_fastrtps_cpp"]
    library = folder / "libnav2_msgs.so"
    sources = ["-x", "c", *plain, "-x", "c++", *support, "-x", "none"]
    run("g++", *FLAGS, *paths, *sources, "-o", library, *linked)
    linked = ["-lnav2_msgs", f"-Wl,-rpath,{folder}", *libraries("generator_py"), *libraries("typesupport_c")]
    for name in ("rosidl_typesupport_c", SUPPORT):
        sources = [out / f"_nav2_msgs_s.ep.{name}.c", *(out / "action").glob("*_s.c")]
        run("gcc", *FLAGS, *paths, *sources, "-o", out / f"nav2_msgs_s__{name}.so", *linked, "-lrosidl_runtime_c")


def run(*command):
    """Run a compiler; its errors are shown."""
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    generate(target)
    compile_all(target)
