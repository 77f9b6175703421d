"""The exported model loads, fits its manifest, and decides as PyTorch does; the commands say what they did."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import onboard
from engines.__main__ import main as engines_main
from engines.export import command as commands
from engines.export import export as exporting
from engines.export.export import HALF_PRECISION_NODES, TorchEngine
from engines.network.network import PAPER, PAPER_VARIANT, TINY, Variant, untrained
from engines.network.policy_checkpoint import CONTROL_HZ, DECISION_HZ, DELAY_TICKS, MEMORY_RESET_S, save_policy
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.contract import INPUTS, OUTPUTS
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import load_manifest
from onboard.policy.network_policy import load_policy
from onboard.policy.parity import compare
from onboard.values.errors import ConfigError, EngineError, InputError


def run(*arguments: str):
    """Return click's result of `onboard-engines`."""
    return CliRunner().invoke(engines_main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A tiny model with its manifest, and the report of the command."""
    model = tmp_path_factory.mktemp("export") / "tiny.onnx"
    report = model.with_name("report.json")
    result = run("export", "--out", model, "--tiny", "--seed", "3", "--json", report)
    assert result.exit_code == 0, result.output
    return model, json.loads(report.read_text())


def test_the_report_tells_parity_over_thirty_steps(exported):
    model, report = exported
    assert report["parity"]["steps"] == report["parity"]["same_action"] == 30
    assert report["parity"]["max_logit_difference"] < 1e-4
    assert report["sha256"] == load_manifest(model).sha256


def test_the_manifest_says_that_nobody_trained_it(exported):
    manifest = load_manifest(exported[0])
    assert manifest.extra["origin"] == "untrained, initial weights by seed 3"
    assert manifest.extra["onboard"] == onboard.__version__
    assert manifest.extra["variant"]["goal_from"] == "start"
    assert manifest.weights == "float32"
    assert manifest.memory_shape == (2, TINY.memory)
    assert [entry.name for entry in manifest.inputs] == [name for name in INPUTS if name != "pose"]
    assert {entry.name for entry in manifest.outputs} == set(OUTPUTS)


def test_it_drives_as_a_policy(exported):
    policy = load_policy(exported[0], lambda path, manifest: OnnxEngine(path, threads=1))
    decision, memory = policy.decide(blank_observation(), policy.initial_memory())
    assert 0 <= decision.action < 28
    assert memory.any()
    policy.close()


def test_parity_sees_other_weights(exported):
    model, _ = exported
    engine = OnnxEngine(model, threads=1)
    parity = compare(engine, TorchEngine(untrained(4, TINY)), load_manifest(model), steps=5)
    engine.close()
    assert parity.max_logit_difference > 0.01
    assert parity.same_action < 5


def test_a_checkpoint_is_exported(tmp_path):
    weights = tmp_path / "trained.pt"
    torch.save(untrained(9, TINY).state_dict(), weights)
    result = run("export", "--out", tmp_path / "a.onnx", "--tiny", "--checkpoint", weights, "--json", "-")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["origin"].startswith("checkpoint trained.pt, sha256 ")
    engine = OnnxEngine(tmp_path / "a.onnx", threads=1)
    parity = compare(engine, TorchEngine(untrained(9, TINY)), load_manifest(tmp_path / "a.onnx"), steps=3)
    engine.close()
    assert parity.max_logit_difference < 1e-4


BARE = Variant(rgb=False, loc=False, goal_from="odom", auxiliary=False)
"""Without the colour encoder it is written in no time."""
VARIANTS = {
    "paper": (PAPER_VARIANT, ["rgb", "scan", "odom", "loc", "goal", "prev_action", "memory_in"]),
    "pose": (Variant(goal_from="pose"), ["rgb", "scan", "odom", "loc", "pose", "goal", "prev_action", "memory_in"]),
    "bare": (BARE, ["scan", "odom", "goal", "prev_action", "memory_in"]),
}


@pytest.mark.parametrize(("name", "weights"), [("paper", "fp32"), ("pose", "fp16"), ("bare", "fp16")])
def test_the_trainers_file_is_exported_with_the_inputs_that_it_has(tmp_path, monkeypatch, name, weights):
    monkeypatch.setattr(exporting, "HALF_SEQUENCES", 2)
    variant, inputs = VARIANTS[name]
    meta = {
        "seed": 3,
        "stages": ["imitation"],
        "digest": "ab" * 32,
        "policy": "third",
        DELAY_TICKS: 5,
        MEMORY_RESET_S: 8.0,
    }
    save_policy(tmp_path / "a.pt", untrained(9, TINY, variant), meta)
    out = tmp_path / "a.onnx"
    stored = ("--weights", weights, "--drives", 0)
    result = run("export", "--out", out, "--checkpoint", tmp_path / "a.pt", *stored, "--json", "-")
    assert result.exit_code == 0, result.output
    assert "the same action in " in json.loads(result.output)["agreement"]
    manifest = load_manifest(out)
    assert [entry.name for entry in manifest.inputs] == inputs
    assert (manifest.training_delay_ticks, manifest.memory_reset_s) == (5, 8.0)
    assert manifest.weights == {"fp32": "float32", "fp16": "float16"}[weights]
    assert manifest.half_precision_nodes == (HALF_PRECISION_NODES if variant.rgb else ())
    assert manifest.extra["training"] == {name: meta[name] for name in ("seed", "stages", "digest", "policy")}
    assert manifest.policy == "third"
    assert manifest.extra["variant"] == asdict(variant)
    assert manifest.extra["origin"].startswith("checkpoint a.pt, sha256 ")
    policy = load_policy(out, lambda path, _: OnnxEngine(path, threads=1))
    assert policy.decide(blank_observation(), policy.initial_memory())[0].logits.shape == (28,)
    policy.close()


@pytest.mark.parametrize(
    ("meta", "rates"),
    [({DELAY_TICKS: 12, CONTROL_HZ: 60.0, DECISION_HZ: 4.0}, (12, 60.0, 4.0)), ({}, (3, 30.0, 3.0))],
    ids=["stated", "of an older file"],
)
def test_the_manifest_states_the_rates_of_the_training(tmp_path, meta, rates):
    save_policy(tmp_path / "a.pt", untrained(9, TINY, BARE), meta)
    done = run("export", "--out", tmp_path / "a.onnx", "--checkpoint", tmp_path / "a.pt")
    assert done.exit_code == 0, done.output
    manifest = load_manifest(tmp_path / "a.onnx")
    assert (manifest.training_delay_ticks, manifest.control_hz, manifest.decision_hz) == rates
    assert manifest.extra["training"] == {}


def damaged(kind: str, path) -> None:
    """Write a checkpoint of that kind."""
    if kind == "other widths":
        torch.save(untrained(0, TINY).state_dict() | {"actor.bias": torch.zeros(5)}, path)
    elif kind == "no weights":
        torch.save([1, 2], path)
    elif kind == "not finite":
        state = untrained(0, TINY).state_dict()
        state["actor.bias"][0] = float("nan")
        torch.save(state, path)
    elif kind == "a later version":
        torch.save({"format": "onboard-policy", "version": 2}, path)
    elif kind == "no time at all":
        save_policy(path, untrained(0, TINY), {MEMORY_RESET_S: 0.0})
    elif kind == "no rate":
        save_policy(path, untrained(0, TINY), {CONTROL_HZ: "often"})
    elif kind in ("no meta", "a number for meta"):
        save_policy(path, untrained(0, TINY), {})
        content = torch.load(path, weights_only=True)
        del content["meta"]
        torch.save(content if kind == "no meta" else {**content, "meta": 3}, path)
    elif kind == "strange meta":
        save_policy(path, untrained(0, TINY), {"loss": float("nan")})


DAMAGES = ["other widths", "no weights", "missing", "not finite"]
DAMAGES += ["a later version", "strange meta", "no time at all", "no rate"]
DAMAGES += ["no meta", "a number for meta"]


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_checkpoint_that_does_not_fit_is_refused_with_one_line(tmp_path, kind):
    weights = tmp_path / "weights.pt"
    damaged(kind, weights)
    result = run("export", "--out", tmp_path / "a.onnx", "--tiny", "--checkpoint", weights)
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["a.txt", "a", "a.ONNX"])
def test_a_model_that_nothing_would_take_for_one_is_not_written(tmp_path, name):
    result = run("export", "--out", tmp_path / name, "--tiny")
    expected = f"error: --out {tmp_path / name}: must end in .onnx, by which --init and --policy know a model\n"
    assert (result.exit_code, result.output) == (2, expected)
    assert not list(tmp_path.iterdir())


def files_in(folder) -> dict[str, bytes]:
    """Return the content of every file below a folder by name."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


#    what fails                           how
INTERRUPTIONS = [
    ("the disk", exporting, "save_manifest", OSError(28, "No space left on device"), InputError),
    ("the check", exporting, "compare", EngineError("an engine returned numbers that are not finite"), EngineError),
    ("the person", exporting, "compare", KeyboardInterrupt(), KeyboardInterrupt),
    ("putting it in place", os, "replace", OSError(30, "Read-only file system"), InputError),
]


@pytest.mark.parametrize(
    ("what", "module", "name", "error", "seen"), INTERRUPTIONS, ids=[row[0] for row in INTERRUPTIONS]
)
def test_an_interrupted_export_leaves_the_old_pair_and_nothing_else(
    tmp_path, monkeypatch, what, module, name, error, seen
):
    out = tmp_path / "a.onnx"
    exporting.export(out, untrained(0, TINY, BARE), "old", {}, steps=1)
    before = files_in(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, name, fail)
    with pytest.raises(seen):
        exporting.export(out, untrained(1, TINY, BARE), "new", {}, steps=1)
    assert files_in(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(before)
    assert load_manifest(out).policy == "old"


#    signal           sent when               exit code    what is said
STOPS = [
    (signal.SIGINT, (exporting, "compare"), 130, "stopped; nothing was written"),
    (signal.SIGTERM, (exporting, "compare"), 143, "stopped; nothing was written"),
    (signal.SIGHUP, (exporting, "onnx_model"), 129, "stopped; nothing was written"),
    (signal.SIGINT, (commands, "_report"), 130, "stopped; written: a.onnx, a.onnx.manifest.json"),
]


@pytest.mark.parametrize(("number", "when", "code", "line"), STOPS, ids=[f"{row[0].name} {row[1][1]}" for row in STOPS])
def test_a_stopped_export_says_what_is_written(tmp_path, monkeypatch, number, when, code, line):
    exporting.export(tmp_path / "a.onnx", untrained(0, TINY, BARE), "old", {}, steps=1)
    before = files_in(tmp_path)
    monkeypatch.setattr(*when, lambda *_, **__: signal.raise_signal(number))
    monkeypatch.setattr(commands, "_weights", lambda *_: (untrained(1, TINY, BARE), {"origin": "here"}))
    result = run("export", "--tiny", "--out", tmp_path / "a.onnx")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"{line}\n")
    assert (files_in(tmp_path) == before) == ("nothing" in line)
    assert len(list(tmp_path.iterdir())) == 2


def test_between_model_and_manifest_a_reader_is_told_by_the_hash(tmp_path, monkeypatch):
    out = tmp_path / "a.onnx"
    exporting.export(out, untrained(0, TINY, BARE), "old", {}, steps=1)
    put, seen = os.replace, []

    def watched(source, target) -> None:
        put(source, target)
        seen.append(Path(target).name)
        if len(seen) == 1:
            with pytest.raises(ConfigError, match="sha256: expected"):
                load_manifest(out)

    monkeypatch.setattr(os, "replace", watched)
    exporting.export(out, untrained(1, TINY, BARE), "new", {}, steps=1)
    assert seen == ["a.onnx", "a.onnx.manifest.json"]
    assert load_manifest(out).policy == "new"


@pytest.mark.long
def test_the_full_network_decides_alike_and_fits_the_contract_exactly(tmp_path):
    result = run("export", "--out", tmp_path / "full.onnx", "--json", "-")
    assert result.exit_code == 0, result.output
    manifest = load_manifest(tmp_path / "full.onnx")
    listed = {name: row.type for name, row in INPUTS.items() if name != "pose"}
    assert {entry.name: entry.type for entry in manifest.inputs} == listed
    assert {entry.name: entry.type for entry in manifest.outputs} == {n: row.type for n, row in OUTPUTS.items()}
    assert manifest.memory_shape == (PAPER.memory_layers, PAPER.memory)
    assert np.isclose(json.loads(result.output)["megabytes"], 102.4, atol=1.0)
