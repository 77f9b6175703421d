"""The command `onboard-calib`: one row a command; its module is imported when it runs."""

from __future__ import annotations

from onboard.commands.cli import DEVELOP, Command, commands_app, run_app, version_line

CAMERAS, WHEELS, DYNAMICS, LATER = "Cameras", "Wheels", "Dynamics", "Later sessions"
"""Headings in the list of commands."""

COMMANDS = {
    "floor": Command(
        "calib.commands.floor:floor",
        "Measure roll, pitch and height of each camera from the floor that it sees.",
        CAMERAS,
        "floor --mounts mounts.toml --camera front=depth.png",
    ),
    "extrinsics": Command(
        "calib.commands.extrinsics:extrinsics",
        "Calibrate the poses of the depth cameras from the floor and from the robot's own motion.",
        CAMERAS,
        "extrinsics drive.mcap --guess mounts.toml -o mounts.toml",
    ),
    "board": Command(
        "calib.commands.board:board",
        "Calibrate camera poses with a printed board that several cameras see at once, or at a measured place.",
        CAMERAS,
        "board --squares 7x5 --square-m 0.04 --mounts mounts.toml --camera front=a.png --camera left=b.png",
    ),
    "intrinsics": Command(
        "calib.commands.intrinsics:intrinsics",
        "Check focal length, depth scale and lens distortion using the floor, walls and a measured height.",
        CAMERAS,
        "intrinsics drive.mcap --mounts mounts.toml --height front=0.61",
    ),
    "rehearse": Command(
        "calib.commands.rehearse:rehearse_command",
        "Rehearse a calibration in simulation: turn and drive arcs in a furnished room, and record it.",
        CAMERAS,
        "rehearse --true true_mounts.toml --map gdc1 --seed 1 -o rehearsal.mcap",
    ),
    "odometry": Command(
        "calib.commands.odometry:odometry_command",
        "Calibrate wheel odometry: scale of speed and turning, and drift of a straight path.",
        WHEELS,
        "odometry cw.mcap ccw.mcap --track-m 0.55",
    ),
    "verify": Command(
        "calib.commands.verify:verify_command",
        "Compare a recording with the calibration: floor and overlap of cameras, wheels, response of the base.",
        LATER,
        "verify recordings/robot_1.mcap",
    ),
    "dynamics": Command(
        "calib.commands.dynamics:dynamics",
        "Identify how the base responds to commands (paper 1, Appendix A, and a roll-out fit), and write plant.toml.",
        DYNAMICS,
        "dynamics run.mcap --out plant.toml",
    ),
    "drive-pattern": Command(
        "calib.commands.drive_pattern:drive_pattern",
        "Drive command steps on free floor through the running runtime, under its limits. Any key stops the robot.",
        DYNAMICS,
        "drive-pattern --ahead 3 --behind 1 --left 1.5 --right 1.5",
    ),
    "gap": Command(
        "calib.commands.gap:gap",
        "Drive the simulated base with the recorded commands, and print its drift after 1, 5 and 10 s.",
        DYNAMICS,
        "gap run.mcap --plant plant.toml --picture gap.png",
    ),
    "collect": Command(
        "calib.commands.collect:collect",
        "Drive the simulated base to sampled poses in a safe rectangle, unattended, and log commands and poses.",
        DYNAMICS,
        "collect --plant plant.toml --seconds 600 -o drive.csv",
    ),
    "learn-dynamics": Command(
        "calib.commands.learn_dynamics:learn_dynamics",
        "Learn how the base moves from commands and poses (paper 3), for the simulated base of plant.toml.",
        DYNAMICS,
        "learn-dynamics drive.csv --model hybrid-dynamic -o learned.npz",
    ),
    "learned-gap": Command(
        "calib.commands.learned_gap:learned_gap",
        "Compare learned dynamics with the plant on a robot with hidden effects and on a recorded Husky (paper 3).",
        DYNAMICS,
        "learned-gap --husky tests/data/husky-steps --report docs/reality-gap.md",
    ),
    "drive-gap": Command(
        "calib.commands.drive_gap:drive_gap",
        'Drive `reactive` in a "real" office and in five simulators of it, and compare their results.',
        DYNAMICS,
        "drive-gap --report docs/reality-gap.md",
    ),
    "completion": Command(
        "onboard.commands.completion:completion",
        "Print the completion script for a shell: commands, options and files.",
        DEVELOP,
        "completion bash > ~/.local/share/bash-completion/completions/onboard-calib",
    ),
}

app = commands_app("onboard-calib", COMMANDS, "Measure this robot: cameras, wheels, dynamics.", version_line())


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
