"""The command `onboard-hil`: one row a command; its module is imported when it runs."""

from __future__ import annotations

from onboard.commands.cli import DEVELOP, DRIVE, JUDGE, LOOK, Command, commands_app, run_app, version_line

COMMANDS = {
    "sim": Command(
        "hil.commands.drive.simulation:sim",
        "Run the simulated robot alone: it listens to /cmd_vel and publishes what a robot's sensors would.",
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
        "Simulate the twin of a real robot: follow its odometry through a building, and publish what is sensed there.",
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
        "Guard the real robot of a twin: safety stop before real obstacles, turn to free room, resume.",
        DRIVE,
        "guard --free 2.5",
    ),
    "twin-demo": Command(
        "hil.commands.drive.twin:twin_demo",
        "Drive a robot in an empty room, and by it its twin to a goal in a building. Exit 0: reached without contact.",
        DRIVE,
        "twin-demo --policy reactive",
    ),
    "view": Command(
        "hil.commands.look.view:view",
        "Look at a drive, live or recorded: building, robot, scan, cameras, way, commands. It never slows the runtime.",
        LOOK,
        "view recordings/robot_1.mcap --map gdc1",
    ),
    "report": Command(
        "hil.commands.look.report:report_command",
        "Write one self-contained HTML page of a run: what happened and why, commands, times, and one picture of the path.",
        LOOK,
        "report recordings/robot_1.mcap --out run.html",
    ),
    "replay": Command(
        "hil.commands.judge.replay:replay_command",
        "Play recordings through the same runtime and say where it first differs.",
        JUDGE,
        "replay recordings/robot_1.mcap --policy reactive",
    ),
    "import": Command(
        "hil.commands.judge.import_bag:import_command",
        "Drive the runtime through a bag of another robot, open loop, and record it as a drive of ours.",
        JUDGE,
        "import bag/ --out drive.mcap",
    ),
    "evaluate": Command(
        "hil.commands.judge.evaluate:evaluate_command",
        "Drive a policy through sets of episodes and count how often it arrives, how well, and what it hits.",
        JUDGE,
        "evaluate --policy reactive --map home --episodes 5",
    ),
    "baselines": Command(
        "hil.commands.judge.baselines:baselines_command",
        "Drive all baselines through the committed episodes and print their table.",
        JUDGE,
        "baselines --map home --episodes 2",
    ),
    "upper-bound": Command(
        "hil.commands.judge.upper_bound:upper_bound",
        "Print how often an ideal estimator of the pose is within 0.2 m at the end of the planner's drives.",
        JUDGE,
        "upper-bound --map home",
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
        "Measure from a robot's pose to the last message of its twin, over DDS between two processes.",
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
        "Measure noise and holes of real depth frames, fit the simulated camera to them, and compare both.",
        DEVELOP,
        "depth-noise --frames frames/ --picture noise.png",
    ),
    "update-reference": Command(
        "hil.commands.develop.update_reference:update_reference",
        "Move references to what the runtime of today makes of their inputs; those that are identical stay as they are.",
        DEVELOP,
        "update-reference tests/data/replay/home.mcap --reason 'Slow before doors.'",
    ),
    "completion": Command(
        "onboard.commands.completion:completion",
        "Print what a shell reads to complete commands, options and files.",
        DEVELOP,
        "completion bash > ~/.local/share/bash-completion/completions/onboard-hil",
    ),
}

RENAMED = {
    "accept": "update-reference",
    "ceiling": "upper-bound",
    "--heed-liveliness": "--stop-on-liveliness-lost",
}
app = commands_app("onboard-hil", COMMANDS, "Drive without the robot.", version_line(), RENAMED)


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
