"""The command `onboard-calib`: one row a command; its module is imported when it runs."""

from __future__ import annotations

from onboard.commands.cli import Command, commands_app, run_app, version_line

COMMANDS: dict[str, Command] = {
    "dynamics": Command(
        "calib.commands.dynamics:dynamics",
        "Identify how the base answers commands, from logs of driving, and write plant.toml.",
        example="dynamics run.mcap --out plant.toml",
    ),
}

app = commands_app("onboard-calib", COMMANDS, "Measure this robot: cameras, wheels, dynamics.", version_line())


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
