"""The check of an engine, with ONNX Runtime and PyTorch in place of TensorRT: sound, other, and damaged engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from torch import set_num_threads
from typer.testing import CliRunner

from engines.__main__ import main
from engines.export.engine_check import RANDOM_AGREEMENT, Checked, Observed, check, observed
from engines.export.export import TorchEngine, export
from engines.export.fp16 import MIN_AGREEMENT
from engines.network.network import TINY, untrained
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.manifest import ModelManifest, load_manifest
from onboard.policy.parity import compare_on
from onboard.values.errors import EngineError
from tests.rigs.recordings.replay_references import REFERENCES

DECISIONS = {"demo": 146, "office": 42}
"""Begun in each recording; a few were never acted on."""
SEED = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.onnx"
    export(path, untrained(SEED, TINY), "tiny", {"origin": "for a test"}, steps=2)
    return path


@pytest.fixture(scope="module")
def manifest(model: Path) -> ModelManifest:
    return load_manifest(model)


@pytest.fixture(scope="module")
def recorded(model: Path, manifest: ModelManifest) -> Observed:
    return observed(model, manifest, [REFERENCES / f"{name}.mcap" for name in DECISIONS], 0)


@pytest.fixture(scope="module")
def torch() -> TorchEngine:
    set_num_threads(1)  # threads that spin for each other would take a hundred times as long on a busy machine
    return TorchEngine(untrained(SEED, TINY))


def checked(path: Path, reference: TorchEngine, manifest: ModelManifest, shown: Observed) -> Checked:
    engine = OnnxEngine(path, threads=1)
    try:
        return check(engine, reference, manifest, shown)
    finally:
        engine.close()


def damaged(model: Path, folder: Path, weight: str, scale: float) -> Path:
    """Return a copy of the model in which the weights with this in their names are noisy."""
    proto, rng = onnx.load(model), np.random.default_rng(0)
    hit = [one for one in proto.graph.initializer if weight in one.name and one.data_type == onnx.TensorProto.FLOAT]
    assert hit, [one.name for one in proto.graph.initializer]
    for one in hit:
        numbers = numpy_helper.to_array(one)
        noisy = numbers + rng.normal(0.0, scale * np.abs(numbers).max(), numbers.shape)
        one.CopyFrom(numpy_helper.from_array(noisy.astype(np.float32), one.name))
    path = folder / "damaged.onnx"
    onnx.save(proto, path)
    return path


def test_recorded_drives_are_cut_at_memory_resets(recorded: Observed, manifest: ModelManifest) -> None:
    lengths = [len(list(sequence)) for sequence in recorded.sequences]
    assert sum(lengths) == sum(DECISIONS.values())
    assert max(lengths) <= 30, "ten seconds at three decisions a second"
    assert set(recorded.sequences[0][0]) == {entry.name for entry in manifest.inputs}  # type: ignore[index]


@pytest.mark.parametrize("source", ["recorded", "random"])
def test_a_sound_engine_agrees(
    source: str, model: Path, manifest: ModelManifest, recorded: Observed, torch: TorchEngine
) -> None:
    shown = recorded if source == "recorded" else observed(model, manifest, [], 4)
    found = checked(model, torch, manifest, shown)
    assert found.agrees, found.line()
    assert found.parity.steps == (sum(DECISIONS.values()) if source == "recorded" else 120)
    assert found.least == (MIN_AGREEMENT if source == "recorded" else RANDOM_AGREEMENT)
    assert found.parity.max_logit_difference < 1e-4
    assert found.parity.max_memory_difference < 1e-4
    assert 0.0 < found.decision_ms["p50"] <= found.decision_ms["p99"]


@pytest.mark.parametrize("part", ["GRU", "scan"])
def test_a_damaged_engine_is_found_out(
    part: str, model: Path, manifest: ModelManifest, recorded: Observed, torch: TorchEngine, tmp_path: Path
) -> None:
    found = checked(damaged(model, tmp_path, part, 0.5), torch, manifest, recorded)
    assert not found.agrees, found.line()
    assert found.parity.max_logit_difference > 1e-3
    assert "must be 99.5%" in found.line()


def test_a_gru_that_drifts_shows_in_the_memory(
    model: Path, manifest: ModelManifest, recorded: Observed, torch: TorchEngine, tmp_path: Path
) -> None:
    """An error too small to change an action grows from step to step."""
    path = damaged(model, tmp_path, "GRU", 1e-3)
    engine = OnnxEngine(path, threads=1)
    first = compare_on(engine, torch, manifest, [sequence[:1] for sequence in recorded.sequences])  # type: ignore[index]
    whole = compare_on(engine, torch, manifest, recorded.sequences)
    engine.close()
    assert 0.0 < first.max_memory_difference < whole.max_memory_difference


def test_an_engine_that_returns_nan_is_no_engine(
    model: Path, manifest: ModelManifest, recorded: Observed, torch: TorchEngine, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match="not finite"):
        checked(damaged(model, tmp_path, "actor", np.nan), torch, manifest, recorded)


def test_without_tensorrt_the_command_says_so(model: Path, tmp_path: Path) -> None:
    for command in ("build", "check"):
        result = CliRunner().invoke(main, [command, str(model), "--cache", str(tmp_path / "cache"), "--json", "-"])
        assert (result.exit_code, result.stdout) == (2, "")
        assert "tensorrt" in result.stderr
    assert not (tmp_path / "cache").exists()
