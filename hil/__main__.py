"""The command `onboard-hil`: one row a command; its module is imported when it runs."""

from __future__ import annotations

from onboard.commands.cli import Command, commands_app, run_app, version_line

COMMANDS = {
    "sim": Command(
        "hil.commands.simulation:sim",
        "Run the simulated robot alone: it listens to /cmd_vel and publishes what a robot's sensors would.",
    ),
    "demo": Command(
        "hil.commands.simulation:demo",
        "Drive the simulated robot to a goal with the real runtime, over real DDS. Exit 0: reached without contact.",
    ),
    "replay": Command(
        "hil.commands.replay:replay_command",
        "Play recordings through the same runtime and say where it first differs.",
    ),
    "update-reference": Command(
        "hil.commands.update_reference:update_reference",
        "Move references to what the runtime of today makes of their inputs; those that are identical stay as they are.",
    ),
    "faults": Command(
        "hil.commands.faults:faults_command",
        "Do named faults to the robot, one at a time, and judge what it does.",
    ),
    "kills": Command(
        "hil.commands.kills:kills_command",
        "Kill the runtime (SIGKILL) at random instants of its drive and measure how far the simulated base rolls.",
    ),
    "soak": Command(
        "hil.commands.soak:soak_command",
        "Drive a simulated robot for hours at the highest speed, with a fault of the table every 30 s, recorder on.",
    ),
    "import": Command(
        "hil.commands.import_bag:import_command",
        "Drive the runtime through a bag of another robot, open loop, and record it as a drive of ours.",
    ),
    "report": Command(
        "hil.commands.report:report_command",
        "Write one self-contained HTML page of a run: what happened and why, commands, times, and one picture of the path.",
    ),
    "view": Command(
        "hil.commands.view:view",
        "Look at a drive, live or recorded: building, robot, scan, cameras, way, commands. It never slows the runtime.",
    ),
    "evaluate": Command(
        "hil.commands.evaluate:evaluate_command",
        "Drive a policy through sets of episodes and count how often it arrives, how well, and what it hits.",
    ),
    "baselines": Command(
        "hil.commands.baselines:baselines_command",
        "Drive all baselines through the committed episodes and print their table.",
    ),
    "upper-bound": Command(
        "hil.commands.upper_bound:upper_bound",
        "Print how often an ideal estimator of the pose is within 0.2 m at the end of the planner's drives.",
    ),
    "target": Command(
        "hil.commands.target:target",
        "Be world and base for `onboard run` on another machine, and measure the round trips. Exit 0: all, and at rest.",
    ),
    "twin": Command(
        "hil.commands.twin:twin",
        "Be the twin of a real robot: follow its odometry through a virtual building, and publish what is sensed there.",
    ),
    "depth-noise": Command(
        "hil.commands.depth_noise:measure_depth_noise",
        "Measure noise and holes of real depth frames, fit the simulated camera to them, and compare both.",
    ),
    "guard": Command(
        "hil.commands.twin:guard",
        "Guard the real robot of a twin: safety stop before real obstacles, turn to free room, resume.",
    ),
    "twin-robot": Command(
        "hil.commands.twin:twin_robot",
        "Be the real robot of a twin, where there is none: the plant in an empty room, on the real robot's topics.",
    ),
    "twin-demo": Command(
        "hil.commands.twin:twin_demo",
        "Drive a robot in an empty room, and by it its twin to a goal in a building. Exit 0: reached without contact.",
    ),
    "twin-latency": Command(
        "hil.commands.twin:twin_latency",
        "Measure from a robot's pose to the last message of its twin, over DDS between two processes.",
    ),
}

RENAMED = {
    "accept": "update-reference",
    "ceiling": "upper-bound",
    "--heed-liveliness": "--stop-on-liveliness-lost",
}
app = commands_app(COMMANDS, "Drive without the robot.", version_line(), RENAMED)


def main() -> None:
    """Run the command line; a mistake of the user's is one line on standard error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
