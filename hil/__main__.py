"""The command `onboard-hil`: one row a command; its module is imported when it runs."""

from __future__ import annotations

import sys

from onboard.commands.cli import (
    DEVELOP,
    DRIVE,
    EXIT_BAD_INPUT,
    JUDGE,
    LOOK,
    Command,
    commands_app,
    run_app,
    version_line,
)

COMMANDS = {
    "sim": Command(
        "hil.commands.drive.simulation:sim",
        "Run only the simulated robot: it follows /cmd_vel and publishes the topics of a robot's sensors.",
        DRIVE,
        "sim --map gdc1 --episode 1",
    ),
    "demo": Command(
        "hil.commands.drive.simulation:demo",
        "Drive the simulated robot to a goal with the real runtime, over real DDS. Exit 0: reached without contact.",
        DRIVE,
        "demo --map lgrc1 --seed 4",
    ),
    "twin": Command(
        "hil.commands.drive.twin:twin",
        "Simulate the twin of a real robot: follow its odometry through a building and publish the twin's sensors.",
        DRIVE,
        "twin --map gdc1 --episode 3",
    ),
    "twin-robot": Command(
        "hil.commands.drive.twin:twin_robot",
        "Simulate the real robot of a twin: the plant in an empty room, on the real robot's topics.",
        DRIVE,
        "twin-robot --drift 1",
    ),
    "guard": Command(
        "hil.commands.drive.twin:guard",
        "Guard the real robot of a twin: stop before real obstacles, turn to free space, resume.",
        DRIVE,
        "guard --free 2.5",
    ),
    "twin-demo": Command(
        "hil.commands.drive.twin:twin_demo",
        "Drive a robot in an empty room so that its twin reaches a goal in a building. Exit 0: reached without contact.",
        DRIVE,
        "twin-demo --policy reactive",
    ),
    "report": Command(
        "hil.commands.look.report:report_command",
        "Write one self-contained HTML page of a run: what happened and why, commands, times, and one picture of the path.",
        LOOK,
        "report recordings/robot_1.mcap --out run.html",
    ),
    "replay": Command(
        "hil.commands.judge.replay:replay_command",
        "Replay recordings through the same runtime and report the first difference.",
        JUDGE,
        "replay recordings/robot_1.mcap --policy reactive",
    ),
    "import": Command(
        "hil.commands.judge.import_bag:import_command",
        "Run a bag of another robot through the runtime, open loop, and record it like a drive of ours.",
        JUDGE,
        "import bag/ --out drive.mcap",
    ),
    "map": Command(
        "hil.commands.drive.build_map:map_command",
        "Make a map of a building from a recorded drive: a pgm and yaml as map_server reads them, and a picture.",
        JUDGE,
        "map recordings/ -o map.yaml",
    ),
    "evaluate": Command(
        "hil.commands.judge.evaluate:evaluate_command",
        "Evaluate a policy on sets of episodes: success rate, path length and contacts.",
        JUDGE,
        "evaluate --policy reactive --map home --episodes 5",
    ),
    "baselines": Command(
        "hil.commands.judge.baselines:baselines_command",
        "Evaluate all baselines on the committed episodes and print their table.",
        JUDGE,
        "baselines --map home --episodes 2",
    ),
    "faults": Command(
        "hil.commands.judge.faults:faults_command",
        "Inject named faults, one at a time, and judge what the robot does.",
        JUDGE,
        "faults --list",
    ),
    "target": Command(
        "hil.commands.judge.target:target",
        "Simulate world and base for `onboard run` on another machine; measure round trips. Exit 0: all, and at rest.",
        JUDGE,
        "target --write-config target.toml",
    ),
    "twin-latency": Command(
        "hil.commands.drive.twin:twin_latency",
        "Measure the latency from a robot's pose to the last message of its twin, over DDS between two processes.",
        JUDGE,
        "twin-latency --count 1000",
    ),
    "kernels": Command(
        "hil.commands.judge.kernels:kernels_command",
        "Generate kernels (paper 2) from recordings (.mcap) or tables (.csv) of a simulator and of the real robot.",
        JUDGE,
        "kernels generate sim/ real/ -o kernels.npz",
    ),
    "reality-gap": Command(
        "hil.commands.judge.reality_gap:reality_gap",
        "Drive the five runs of paper 2: Design, Deploy, Kernels, Redesign under kernels, Redeploy.",
        JUDGE,
        "reality-gap 1d --json -",
    ),
    "depth-noise": Command(
        "hil.commands.develop.depth_noise:measure_depth_noise",
        "Measure noise and holes in real depth frames, fit the simulated camera to them, and compare both.",
        DEVELOP,
        "depth-noise --frames frames/ --picture noise.png",
    ),
    "update-reference": Command(
        "hil.commands.develop.update_reference:update_reference",
        "Update replay references to the output of today's runtime; identical ones stay unchanged.",
        DEVELOP,
        "update-reference tests/data/replay/home.mcap --reason 'Slow before doors.'",
    ),
    "completion": Command(
        "onboard.commands.completion:completion",
        "Print the completion script for a shell: commands, options and files.",
        DEVELOP,
        "completion bash > ~/.local/share/bash-completion/completions/onboard-hil",
    ),
}

REMOVED = {
    "view": "`onboard foxglove` and `onboard dashboard` show a live drive; Foxglove opens a recording, and "
    "`onboard-hil report` makes a page of it"
}
"""Former commands, and what to use instead."""

app = commands_app("onboard-hil", COMMANDS, "Simulate, evaluate and replay drives without the robot.", version_line())


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    if sys.argv[1:2] and sys.argv[1] in REMOVED:
        sys.stderr.write(f"error: `onboard-hil {sys.argv[1]}` was removed: {REMOVED[sys.argv[1]]}\n")
        sys.exit(EXIT_BAD_INPUT)
    run_app(app)


if __name__ == "__main__":
    main()
