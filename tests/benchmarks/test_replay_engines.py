"""A drive of the full network replayed by other engines: what the tolerances of a replay are set by.

`ONBOARD_REPLAY_MODEL=model.onnx` takes a trained network, with its manifest next to it; else one of the same size with
random weights decides. Prints how far each field differs for each engine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from engines.export.export import export, untrained_network
from engines.export.fp16 import halve
from engines.network.network import PAPER
from hil.replay.compare import Comparison
from hil.replay.replay import replay
from hil.replay.tolerances import SAME_ACTIONS, TOLERANCES, tolerant
from onboard.drivers.engines import onnx_engine
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.manifest import load_manifest, save_manifest, sha256_of
from onboard.policy.network_policy import load_policy
from onboard.values.interfaces import Policy
from tests.rigs.recordings.replay_rig import simulated_drive

TRAINED = os.environ.get("ONBOARD_REPLAY_MODEL")
DRIVE_S = 20.0
ALL = "ORT_ENABLE_ALL"
OTHER = tolerant("other engine")
#   engine               threads  graph optimisation       half weights
ENGINES = [
    ("the same",               1, ALL,                     False),
    ("two threads",            2, ALL,                     False),
    ("extended only",          1, "ORT_ENABLE_EXTENDED",   False),
    ("basic only",             1, "ORT_ENABLE_BASIC",      False),
    ("none",                   1, "ORT_DISABLE_ALL",       False),
    ("half weights",           1, ALL,                     True),
]  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, Path]:
    """The model, and the same with half weights."""
    folder = tmp_path_factory.mktemp("models")
    whole, half = folder / "whole.onnx", folder / "half.onnx"
    if TRAINED:
        shutil.copy(TRAINED, whole)
        save_manifest(whole, load_manifest(Path(TRAINED)))
    else:
        network, extra = untrained_network(0, PAPER)
        export(whole, network, "untrained", extra, steps=2)
    proto = onnx.load(whole)
    halve(proto)
    onnx.save(proto, half)
    save_manifest(half, load_manifest(whole).model_copy(update={"sha256": sha256_of(half), "weights": "float16"}))
    return {False: whole, True: half}


@pytest.fixture(scope="module")
def drive(models: Mapping[bool, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated_drive(tmp_path_factory.mktemp("drive"), models[False], DRIVE_S)


def policy_of(model: Path, threads: int, level: str, patch: pytest.MonkeyPatch) -> Policy:
    """Return the policy on ONNX Runtime with another effort to make the graph faster."""
    session = onnxruntime.InferenceSession

    def opened(path: str, options: Any, providers: Any) -> Any:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        return session(path, options, providers=providers)

    with patch.context() as patched:
        patched.setattr(onnx_engine.onnxruntime, "InferenceSession", opened)
        return load_policy(model, lambda path, manifest: OnnxEngine(path, threads))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_other_engines_stay_within_the_tolerances(
    models: Mapping[bool, Path], drive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worst: dict[str, float] = {}
    for name, threads, level, half in ENGINES:
        found = replay(drive, policy=policy_of(models[half], threads, level, monkeypatch), measure=OTHER)
        print(f"{name}: {found.same} of {found.decisions} actions the same", *_shown(found), sep="\n  ", flush=True)
        for field, count in found.fields.items():
            if field != "action":
                worst[field] = max(worst.get(field, 0.0), count.worst)
        assert all(count.outside == 0 for field, count in found.fields.items() if field != "action")
        assert found.same >= SAME_ACTIONS * found.decisions or (half and not TRAINED), (
            "random logits lie close together"
        )
    for field, by in worst.items():
        print(f"worst of {field}: {by:.3g}, tolerated {TOLERANCES.get(field, 0.0):g}")


def _shown(found: Comparison) -> Iterator[str]:
    for field, count in found.fields.items():
        yield f"{field}: {count.values} values differ, by {count.worst:.3g} at most"
