"""The command `onboard-engines`: one row a command; its module is imported when it runs."""

from __future__ import annotations

import sys

from onboard import __version__
from onboard.commands.cli import DEVELOP, DRIVE, JUDGE, Command, commands_app

COMMANDS = {
    "train": Command(
        "engines.train.command:train",
        "Train a policy of scan and state, resumable; the result is OUT/policy.onnx.",
        DEVELOP,
        "train --out runs/mine --map depot --map gdc1",
    ),
    "report": Command(
        "engines.report.command:report",
        "Print the tables in Markdown, then the tables whose result files are missing.",
        JUDGE,
        "report docs/results/onboard-v2 --json figures.json",
    ),
    "export": Command(
        "engines.export.command:export",
        "Write the network as ONNX with its manifest. Exit 1, nothing written: its decisions differ in ONNX Runtime.",
        DEVELOP,
        "export --checkpoint runs/mine/policy.pt --out mine.onnx",
    ),
    "wrap": Command(
        "engines.export.command:wrap",
        "Copy a model from another trainer, propose its manifest from its tensors, and list every guess.",
        DEVELOP,
        "wrap own.onnx -o wrapped",
    ),
    "validate": Command(
        "engines.export.command:validate",
        "Check a model, its manifest and a robot against each other, and show how each tensor is fed.",
        JUDGE,
        "validate own.onnx",
    ),
    "build": Command(
        "engines.export.command:build",
        "On the robot: build the TensorRT engine; install it if its decisions match ONNX Runtime. Exit 1: they do not.",
        DRIVE,
        "build onboard-v2",
    ),
    "check": Command(
        "engines.export.command:check",
        "On the robot: compare the installed TensorRT engine with ONNX Runtime on recordings. Exit 1: it is removed.",
        DRIVE,
        "check onboard-v2 recordings/robot_1.mcap",
    ),
    "completion": Command(
        "onboard.commands.completion:completion",
        "Print the completion script for a shell: commands, options and files.",
        DEVELOP,
        "completion bash > ~/.local/share/bash-completion/completions/onboard-engines",
    ),
}

ABOUT = "Make the policy: train it, compare and report it, export it, build its TensorRT engine on the robot."
main = commands_app("onboard-engines", COMMANDS, ABOUT, __version__)


if __name__ == "__main__":
    sys.exit(main())
