"""The command `onboard-calib`: one row a command; its module is imported when it runs."""

from __future__ import annotations

from onboard.commands.cli import JUDGE, Command, commands_app, run_app, version_line

COMMANDS: dict[str, Command] = {
    "odometry": Command(
        "calib.commands.odometry:odometry_command",
        "Measure wheel radii and track from loops against localisation, a tape measure, a gyroscope or the own scans.",
        JUDGE,
        "odometry cw.mcap ccw.mcap --track-m 0.55",
    ),
    "verify": Command(
        "calib.commands.verify:verify_command",
        "Compare a session with the calibration. Exit 1: recalibrate.",
        JUDGE,
        "verify recordings/robot_1.mcap",
    ),
}

app = commands_app("onboard-calib", COMMANDS, "Measure this robot: cameras, wheels, dynamics.", version_line())


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
