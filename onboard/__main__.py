"""The command `onboard`: one row per command. A command imports its module when it runs."""

from __future__ import annotations

from onboard.commands.cli import DEVELOP, DRIVE, JUDGE, LOOK, Command, commands_app, run_app, version_line

COMMANDS = {
    "init": Command(
        "onboard.commands.init:init",
        "Write the files that describe a robot, every key with its comment, and a page of the next commands.",
        DRIVE,
        "init my_robot --footprint 0.3 --speed 0.6 --namespace robot1 --stamped",
    ),
    "run": Command(
        "onboard.commands.run:run",
        "Drive the robot until a signal comes. The last command on the wire is always zero.",
        DRIVE,
        "run --config my_robot/onboard.toml",
    ),
    "goal": Command(
        "onboard.commands.operator.commands:goal",
        "Send a goal to the running robot and print the state that it answers with. Exit 1: refused.",
        DRIVE,
        "goal 3 0 --wait",
        numbers=True,
    ),
    "cancel": Command(
        "onboard.commands.operator.commands:cancel",
        "End the drive of the running robot and print the state that it answers with.",
        DRIVE,
        "cancel",
    ),
    "mounts": Command(
        "onboard.commands.mounts:mounts_command",
        "Print where the cameras of a URDF sit, as tables for `mounts.toml`; or draw what the cameras of a robot see.",
        DRIVE,
        "mounts --from-urdf robot.urdf --camera front=front_depth_optical_frame",
    ),
    "status": Command(
        "onboard.commands.operator.commands:status",
        "Print what the running robot does and how its parts are, on one screen. Exit 1: a part is in error.",
        LOOK,
        "status --json -",
    ),
    "top": Command(
        "onboard.commands.operator.top:top",
        "Show a running robot live: rates, lateness, time of each stage, ages of the inputs, misses, reasons.",
        LOOK,
        "top --config my_robot/onboard.toml",
    ),
    "check-config": Command(
        "onboard.commands.run:check_config",
        "Check the configuration, all files that it names and what it needs of this machine; show what is in effect.",
        LOOK,
        "check-config --config my_robot/onboard.toml --files-only",
    ),
    "doctor": Command(
        "onboard.commands.doctor.command:doctor",
        "Look at everything that a drive needs: green, amber or red, and what to do. Exit code 1 when anything is red.",
        LOOK,
        "doctor --config my_robot/onboard.toml",
    ),
    "compile": Command(
        "onboard.commands.run:compile_command",
        "Compile kernels and byte code, so that no start of this robot has to. Opens no device and no network.",
        LOOK,
        "compile --config my_robot/onboard.toml",
    ),
    "bench": Command(
        "onboard.commands.bench.command:bench",
        "Measure this machine: each figure beside its peer and its budget, and what limits it. Exit 1: over a budget.",
        LOOK,
        "bench --json -",
    ),
    "cameras": Command(
        "onboard.commands.cameras:cameras",
        "List the RealSense devices that are plugged in, beside the serial numbers that the mounts expect.",
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
        "Make recordings whole that a crash or a power cut left unfinished.",
        JUDGE,
        "repair recordings/robot_1.mcap",
    ),
    "keep": Command(
        "onboard.commands.recordings:keep",
        "Mark recordings that the disk budget must not delete.",
        JUDGE,
        "keep recordings/robot_1.mcap",
    ),
    "install": Command(
        "onboard.commands.install.cli:install_command",
        "Install the service: a version beside the others, one switch, and back when the new one is not READY.",
        DEVELOP,
        "install --dry-run",
    ),
    "uninstall": Command(
        "onboard.commands.install.cli:uninstall_command",
        "Stop the service and remove it with all versions; configuration and recordings stay unless purged.",
        DEVELOP,
        "uninstall --dry-run",
    ),
    "secure-setup": Command(
        "onboard.commands.security.secure_setup:secure_setup",
        "Make keys, certificates and permissions for DDS Security: one folder a role. What is there is left alone.",
        DEVELOP,
        "secure-setup keys",
    ),
    "config-schema": Command(
        "onboard.commands.init:config_schema",
        "Print the JSON schema of a robot's file, for completion and checks in an editor (taplo, Even Better TOML).",
        DEVELOP,
        "config-schema --json my_robot/onboard.schema.json",
    ),
    "completion": Command(
        "onboard.commands.completion:completion",
        "Print what a shell reads to complete commands, options and files.",
        DEVELOP,
        "completion bash > ~/.local/share/bash-completion/completions/onboard",
    ),
}

RENAMED = {
    "--elsewhere": "--files-only",
    "--previous": "--rollback",
}
app = commands_app("onboard", COMMANDS, "The runtime that drives a robot to a point goal.", version_line(), RENAMED)


def main() -> None:
    """Run the command line. An error of the user gives one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
