"""The command `onboard`: one row per command. A command imports its module when it runs."""

from __future__ import annotations

from onboard.commands.cli import Command, commands_app, run_app, version_line

COMMANDS = {
    "run": Command(
        "onboard.commands.run:run",
        "Drive the robot until a signal comes. The last command on the wire is always zero.",
    ),
    "init": Command(
        "onboard.commands.init:init",
        "Write the files that describe a robot, every key with its comment, and a page of the next commands.",
    ),
    "config-schema": Command(
        "onboard.commands.init:config_schema",
        "Print the JSON schema of a robot's file, for completion and checks in an editor (taplo, Even Better TOML).",
    ),
    "check-config": Command(
        "onboard.commands.run:check_config",
        "Check the configuration, all files that it names and what it needs of this machine; show what is in effect.",
    ),
    "scan": Command(
        "onboard.commands.scan:scan_images",
        "Fuse depth images on disk into the 180-bin scan.",
    ),
    "repair": Command(
        "onboard.commands.recordings:repair",
        "Make recordings whole that a crash or a power cut left unfinished.",
    ),
    "cameras": Command(
        "onboard.commands.cameras:cameras",
        "List the RealSense devices that are plugged in, beside the serial numbers that the mounts expect.",
    ),
    "mounts": Command(
        "onboard.commands.mounts:mounts_command",
        "Print where the cameras of a URDF sit, as tables for `mounts.toml`.",
    ),
    "doctor": Command(
        "onboard.commands.doctor.command:doctor",
        "Look at everything that a drive needs: green, amber or red, and what to do. Exit code 1 when anything is red.",
    ),
    "keep": Command(
        "onboard.commands.recordings:keep",
        "Mark recordings that the disk budget must not delete.",
    ),
    "install": Command(
        "onboard.commands.install.cli:install_command",
        "Install the service: a version beside the others, one switch, and back when the new one is not READY.",
    ),
    "uninstall": Command(
        "onboard.commands.install.cli:uninstall_command",
        "Stop the service and remove it with all versions; configuration and recordings stay unless purged.",
    ),
    "secure-setup": Command(
        "onboard.commands.secure_setup:secure_setup",
        "Make keys, certificates and permissions for DDS Security: one folder a role. What is there is left alone.",
    ),
}

RENAMED = {
    "--elsewhere": "--files-only",
    "--previous": "--rollback",
}
app = commands_app(COMMANDS, "The runtime that drives a robot to a point goal.", version_line(), RENAMED)


def main() -> None:
    """Run the command line. An error of the user gives one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
