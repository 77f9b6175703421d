"""The command `onboard-engines`: one row a command; its module is imported when it runs."""

from __future__ import annotations

import sys

from onboard import __version__
from onboard.commands.cli import DEVELOP, DRIVE, JUDGE, Command, commands_app

COMMANDS = {
    "train": Command(
        "engines.train.command:train",
        "Train a policy in resumable stages; the result is OUT/policy.pt, for `onboard-engines export --checkpoint`.",
        DEVELOP,
        "train --out runs/mine --map depot --map gdc1",
    ),
    "encoder": Command(
        "engines.encoder.command:encoder",
        "Train the colour encoder, and print its distance errors in unseen buildings.",
        DEVELOP,
        "encoder --out runs/encoder",
    ),
    "ablations": Command(
        "engines.ablations.command:ablations",
        "Train each agent, drive it in its conditions, and print a table; OUT/ablations.json has the same figures.",
        JUDGE,
        "ablations --out runs/ablations --show",
    ),
    "report": Command(
        "engines.report.command:report",
        "Print the tables in Markdown. The end names tables without files.",
        JUDGE,
        "report docs/results/onboard-v1 --json figures.json",
    ),
    "export": Command(
        "engines.export.command:export",
        "Write the network as ONNX with its manifest. Exit 1, nothing written: ONNX Runtime decides otherwise with it.",
        DEVELOP,
        "export --checkpoint runs/mine/policy.pt --out mine.onnx",
    ),
    "wrap": Command(
        "engines.export.command:wrap",
        "Copy a model of another training, propose its manifest from its tensors, and say what was guessed.",
        DEVELOP,
        "wrap own.onnx -o wrapped",
    ),
    "validate": Command(
        "engines.export.command:validate",
        "Say all that does not fit between a model, its manifest and a robot, and how each tensor is fed.",
        JUDGE,
        "validate own.onnx",
    ),
    "build": Command(
        "engines.export.command:build",
        "On the robot: build the TensorRT engine into the cache and compare its decisions with ONNX Runtime's.",
        DRIVE,
        "build onboard-v1",
    ),
    "completion": Command(
        "onboard.commands.completion:completion",
        "Print what a shell reads to complete commands, options and files.",
        DEVELOP,
        "completion bash > ~/.local/share/bash-completion/completions/onboard-engines",
    ),
}

ABOUT = "Make the policy: train it, compare and report it, export it, build its TensorRT engine on the robot."
main = commands_app("onboard-engines", COMMANDS, ABOUT, __version__)


if __name__ == "__main__":
    sys.exit(main())
