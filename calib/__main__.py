"""The command `onboard-calib`: one row a command; its module is imported when it runs."""

from __future__ import annotations

from onboard.commands.cli import Command, commands_app, run_app, version_line

COMMANDS: dict[str, Command] = {
    "dynamics": Command(
        "calib.commands.dynamics:dynamics",
        "Identify how the base answers commands, from logs of driving, and write plant.toml.",
        example="dynamics run.mcap --out plant.toml",
    ),
    "drive-pattern": Command(
        "calib.commands.drive_pattern:drive_pattern",
        "Drive command steps on free floor through the running runtime, for a log of its dynamics; any key stops.",
        example="drive-pattern --ahead 3 --behind 1 --left 1.5 --right 1.5",
    ),
    "gap": Command(
        "calib.commands.gap:gap",
        "Replay recorded commands through a plant, and print how far it drifts from the recorded drive.",
        example="gap run.mcap --plant plant.toml --picture gap.png",
    ),
}

app = commands_app("onboard-calib", COMMANDS, "Measure this robot: cameras, wheels, dynamics.", version_line())


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
