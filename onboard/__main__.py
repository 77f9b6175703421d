"""The command `onboard`: one row per command. A command imports its module when it runs."""

from __future__ import annotations

from onboard.commands.cli import DEVELOP, DRIVE, JUDGE, LOOK, Command, commands_app, run_app, version_line

COMMANDS = {
    "init": Command(
        "onboard.commands.init.command:init",
        "Write the files that describe a robot, every key with its comment, and a page of the next commands.",
        DRIVE,
        "init my_robot --footprint 0.3 --speed 0.6 --namespace robot1 --stamped",
    ),
    "run": Command(
        "onboard.commands.run:run",
        "Drive the robot until Ctrl-C or SIGTERM. The last command sent is always zero.",
        DRIVE,
        "run --config my_robot/onboard.toml",
    ),
    "goal": Command(
        "onboard.commands.operator.commands:goal",
        "Send a goal to the running robot and print the state that it reports. Exit 1: refused.",
        DRIVE,
        "goal 3 0 --yaw 90 --wait",
        numbers=True,
    ),
    "cancel": Command(
        "onboard.commands.operator.commands:cancel",
        "End the drive of the running robot and print the state that it reports.",
        DRIVE,
        "cancel",
    ),
    "pause": Command(
        "onboard.commands.operator.commands:pause",
        "Hold the running robot until `onboard resume`; it keeps its goal. Print the state that it reports.",
        DRIVE,
        "pause",
    ),
    "resume": Command(
        "onboard.commands.operator.commands:resume",
        "Let a paused robot continue to its goal, and print the state that it reports.",
        DRIVE,
        "resume",
    ),
    "place": Command(
        "onboard.commands.operator.places:place",
        "Name the place where the robot is, or list the places of its building.",
        DRIVE,
        "place add kitchen",
    ),
    "route": Command(
        "onboard.commands.operator.places:route",
        "Drive to named places, one after the other. `onboard pause` and `resume` apply to it. Exit 1: a place was missed.",
        DRIVE,
        "route kitchen printer lab --loop --wait 20",
    ),
    "locate": Command(
        "onboard.commands.operator.places:locate",
        "Tell the tracker where the robot is: at a place, at X and Y, or where a search around all places finds it.",
        DRIVE,
        "locate 0 0 --yaw 90",
        numbers=True,
    ),
    "mounts": Command(
        "onboard.commands.mounts:mounts_command",
        "Print the camera poses of a URDF as tables for `mounts.toml`, or plot what the configured cameras see.",
        DRIVE,
        "mounts --from-urdf robot.urdf --camera front=front_depth_optical_frame",
    ),
    "gateway": Command(
        "onboard.commands.run:gateway",
        "Join the runtime's domain to the node `onboard_gateway` in the robot's own ROS 2, until Ctrl-C or SIGTERM.",
        DRIVE,
        "gateway --config my_robot/onboard.toml --socket /run/onboard/gateway.sock",
    ),
    "status": Command(
        "onboard.commands.operator.commands:status",
        "Print the state of the running robot and the health of its parts. Exit 1: a part has an error.",
        LOOK,
        "status --json -",
    ),
    "top": Command(
        "onboard.commands.operator.top:top",
        "Show a running robot live: rates, lateness, time of each stage, ages of the inputs, misses, reasons.",
        LOOK,
        "top --config my_robot/onboard.toml",
    ),
    "dashboard": Command(
        "onboard.commands.operator.dashboard.command:dashboard",
        "Serve one page that shows the running robot, why it stands, and its recordings, and that can always stop it.",
        LOOK,
        "dashboard --allow-control",
    ),
    "foxglove": Command(
        "onboard.commands.operator.foxglove:foxglove",
        "Serve the running robot's topics to Foxglove, images only while a panel shows them.",
        LOOK,
        "foxglove --config my_robot/onboard.toml",
    ),
    "reasons": Command(
        "onboard.commands.operator.reasons:reasons",
        "Print why the runtime limits a command, ends a drive or refuses something, and what clears each reason.",
        LOOK,
        "reasons goal_occupied",
    ),
    "check-config": Command(
        "onboard.commands.run:check_config",
        "Check the configuration, the files that it names and this machine; print the settings in effect.",
        LOOK,
        "check-config --config my_robot/onboard.toml --files-only",
    ),
    "doctor": Command(
        "onboard.commands.doctor.command:doctor",
        "Check everything that a drive needs: green, amber or red, and what to do. Exit code 1: something is red.",
        LOOK,
        "doctor --config my_robot/onboard.toml",
    ),
    "compile": Command(
        "onboard.commands.run:compile_command",
        "Compile kernels and byte code in advance, so that the runtime starts faster. Opens no device and no network.",
        LOOK,
        "compile --config my_robot/onboard.toml",
    ),
    "bench": Command(
        "onboard.commands.bench.command:bench",
        "Benchmark this machine: each figure next to its peer and budget, and what slows it. Exit 1: over a budget.",
        LOOK,
        "bench --json -",
    ),
    "cameras": Command(
        "onboard.commands.cameras:cameras",
        "List the RealSense devices that are plugged in and the serial numbers that the mounts expect.",
        LOOK,
        "cameras --config my_robot/onboard.toml",
    ),
    "scan": Command(
        "onboard.commands.scan:scan_images",
        "Fuse depth images on disk into the 180-bin scan.",
        LOOK,
        "scan --mounts my_robot/mounts.toml --camera front=depth.png --plot scan.png",
    ),
    "repair": Command(
        "onboard.commands.recordings:repair",
        "Repair recordings that a crash or a power cut left unfinished.",
        JUDGE,
        "repair recordings/robot_1.mcap",
    ),
    "keep": Command(
        "onboard.commands.recordings:keep",
        "Protect recordings from deletion by the disk budget.",
        JUDGE,
        "keep recordings/robot_1.mcap",
    ),
    "install": Command(
        "onboard.commands.install.cli:install_command",
        "Install a version of the service next to the others and switch to it; roll back if it does not become READY.",
        DEVELOP,
        "install --dry-run",
    ),
    "uninstall": Command(
        "onboard.commands.install.cli:uninstall_command",
        "Stop the service and remove all its versions. Configuration and recordings stay unless you add --purge.",
        DEVELOP,
        "uninstall --dry-run",
    ),
    "secure-setup": Command(
        "onboard.commands.security.secure_setup:secure_setup",
        "Create keys, certificates and permissions for DDS Security, one folder per role. Existing files are kept.",
        DEVELOP,
        "secure-setup keys",
    ),
    "config-schema": Command(
        "onboard.commands.init.command:config_schema",
        "Print the JSON schema of `onboard.toml`, for completion and checks in an editor (taplo, Even Better TOML).",
        DEVELOP,
        "config-schema --json my_robot/onboard.schema.json",
    ),
    "completion": Command(
        "onboard.commands.completion:completion",
        "Print the completion script for a shell: commands, options and files.",
        DEVELOP,
        "completion bash > ~/.local/share/bash-completion/completions/onboard",
    ),
}

app = commands_app("onboard", COMMANDS, "The runtime that drives a robot to a point goal.", version_line())


def main() -> None:
    """Run the command line. An error of the user gives one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
