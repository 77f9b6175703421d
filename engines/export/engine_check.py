"""Whether an engine decides as a reference does: on recorded drives or on random sequences, and how fast."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engines.export.fp16 import MIN_AGREEMENT, Listener
from hil.replay.replay import replay
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.drivers.engines.tensorrt_build import refusal_of
from onboard.drivers.engines.tensorrt_engine import TensorRtEngine, cached_engine
from onboard.policy.encode import tensors
from onboard.policy.manifest import ModelManifest, check_engine, load_manifest
from onboard.policy.parity import Inputs, Parity, compare_on, random_inputs, random_sequences, zero_memory
from onboard.values.errors import EngineError
from onboard.values.interfaces import Engine

RANDOM_AGREEMENT = 0.99
"""Least share of random decisions with the same action: there near ties are frequent, and flip with the precision."""
TIMED_DECISIONS = 200


@dataclass(frozen=True, slots=True)
class Observed:
    """Sequences of inputs, each from one memory reset to the next.

    least: share of decisions that must have the same action
    """

    sequences: Iterable[Iterable[Inputs]]
    source: str
    least: float


def observed(model: Path, manifest: ModelManifest, recordings: Sequence[Path], random: int) -> Observed:
    """Return what recorded drives show to a model, with its memory resets; without recordings, random sequences.

    The recorded policy may be another one. Raises InputError or ConfigError for a file that cannot be replayed.
    """
    if not recordings:
        sequences = random_sequences(manifest, sequences=random)
        return Observed(sequences, f"{random} random sequences", RANDOM_AGREEMENT)
    shown: list[list[Inputs]] = []
    for recording in recordings:
        listener = Listener(OnnxEngine(model, threads=1), manifest)
        replay(recording, policy=listener)
        memory = listener.initial_memory()
        shown += [[tensors(one, memory, manifest) for one in sequence] for sequence in listener.sequences]
    return Observed(shown, ", ".join(str(recording) for recording in recordings), MIN_AGREEMENT)


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found about an engine.

    source:      decisions that were compared
    decision_ms: p50 and p99 of a run, copies in and out included [ms]
    """

    engine: str
    reference: str
    source: str
    agrees: bool
    least: float
    parity: Parity
    decision_ms: dict[str, float]

    def line(self) -> str:
        """Return the result in one line."""
        parity = self.parity
        return (
            f"{self.engine} chooses as {self.reference} in {parity.same_action} of {parity.steps} decisions "
            f"({parity.agreement:.2%}) of {self.source}, must be {self.least:.1%}"
        )

    def plain(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {**asdict(self), "agreement": self.parity.agreement}


def check(engine: Engine, reference: Engine, manifest: ModelManifest, shown: Observed) -> Checked:
    """Return how an engine compares with a reference. Raises as `compare_on`."""
    parity = compare_on(engine, reference, manifest, shown.sequences)
    agrees = parity.agreement >= shown.least
    times = decision_ms(engine, manifest)
    return Checked(engine.name, reference.name, shown.source, agrees, shown.least, parity, times)


def decision_ms(engine: Engine, manifest: ModelManifest, decisions: int = TIMED_DECISIONS) -> dict[str, float]:
    """Return p50 and p99 of a warm engine's run time, copies in and out included [ms]."""
    inputs = {**random_inputs(manifest, np.random.default_rng(0)), **zero_memory(manifest)}
    times_ns = []
    for _ in range(decisions):
        begun_ns = time.perf_counter_ns()
        engine.run(inputs)
        times_ns.append(time.perf_counter_ns() - begun_ns)
    p50, p99 = np.percentile(np.asarray(times_ns) / 1e6, [50, 99])
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2)}


UNCHECKED = "unchecked"
"""Folder in the cache of an engine that is being checked; the runtime does not look there."""


def build_and_check(model: Path, cache: Path, *, fp16: bool, recordings: Sequence[Path], random: int) -> Checked:
    """Build an engine, compare it with ONNX Runtime, and install it in the cache if it agrees.

    An engine that disagrees is deleted, and `refusal_of` says why; so is one that was installed before.
    Raises MissingExtraError without TensorRT, pycuda or onnxruntime, InputError as `observed`, EngineError and
    ConfigError as the engines do.
    """
    _, target = cached_engine(load_manifest(model), cache, fp16=fp16)
    installed = target.exists() and not refusal_of(target).exists()
    found = _checked(model, cache if installed else cache / UNCHECKED, fp16=fp16, recordings=recordings, random=random)
    built = target if installed else cache / UNCHECKED / target.name
    try:
        if found.agrees:
            os.replace(built, target)
            refusal_of(target).unlink(missing_ok=True)
        else:
            refusal_of(target).write_text(found.line() + "\n", encoding="utf-8")
            built.unlink()
    except OSError as error:
        raise EngineError(f"{target}: cannot be changed: {error.strerror}") from error
    return found


def check_installed(model: Path, cache: Path, *, fp16: bool, recordings: Sequence[Path], random: int) -> Checked:
    """Compare the installed engine with ONNX Runtime; delete it if it disagrees. Raises as `build_and_check`.

    Raises EngineError too if none is installed.
    """
    name, target = cached_engine(load_manifest(model), cache, fp16=fp16)
    if not target.exists():
        raise EngineError(f"no engine for {name} in {cache}: `onboard-engines build` makes one")
    return build_and_check(model, cache, fp16=fp16, recordings=recordings, random=random)


def _checked(model: Path, cache: Path, *, fp16: bool, recordings: Sequence[Path], random: int) -> Checked:
    manifest = load_manifest(model)
    shown = observed(model, manifest, recordings, random)
    engine = TensorRtEngine(model, manifest, cache, fp16=fp16)
    try:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        engine.warm_up()
        reference = OnnxEngine(model)
        found = check(engine, reference, manifest, shown)
        reference.close()
        return found
    finally:
        engine.close()
