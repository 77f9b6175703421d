"""The command `onboard-engines`: one row a command; its module is imported when it runs."""

from __future__ import annotations

import sys

from onboard import __version__
from onboard.commands.cli import Command, commands_app

COMMANDS = {
    "train": Command(
        "engines.train.command:train",
        "Train a policy in resumable stages; the result is OUT/policy.pt, for `onboard-engines export --checkpoint`.",
    ),
    "encoder": Command(
        "engines.encoder.command:encoder",
        "Train the colour encoder, and print its distance errors in unseen buildings.",
    ),
    "ablations": Command(
        "engines.ablations.command:ablations",
        "Train each agent, drive it in its conditions, and print a table; OUT/ablations.json has the same figures.",
    ),
    "report": Command(
        "engines.report.command:report",
        "Print the tables in Markdown. The end names tables without files.",
    ),
    "export": Command(
        "engines.export.command:export",
        "Write the network as ONNX with its manifest. Exit 1, nothing written: ONNX Runtime decides otherwise with it.",
    ),
    "wrap": Command(
        "engines.export.command:wrap",
        "Copy a model of another training, propose its manifest from its tensors, and say what was guessed.",
    ),
    "validate": Command(
        "engines.export.command:validate",
        "Say all that does not fit between a model, its manifest and a robot, and how each tensor is fed.",
    ),
    "build": Command(
        "engines.export.command:build",
        "On the robot: build the TensorRT engine into the cache and compare its decisions with ONNX Runtime's.",
    ),
}

ABOUT = "Make the policy: train it, compare and report it, export it, build its TensorRT engine on the robot."
main = commands_app(COMMANDS, ABOUT, __version__)


if __name__ == "__main__":
    sys.exit(main())
