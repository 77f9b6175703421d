"""Half weights cost no time: the Casts are computed when the model loads, not in a decision."""

from __future__ import annotations

import numpy as np
import pytest

from engines.export.export import export, untrained_network
from engines.export.tensorrt import decision_ms
from engines.network.network import PAPER
from onboard.drivers.engines.onnx_engine import OnnxEngine

ROUNDS = 4
DECISIONS = 40
MOST = 1.25
"""A decision that widened 25 million weights would take several times as long."""


@pytest.mark.long
def test_a_decision_with_half_weights_is_as_fast(tmp_path):
    network, extra = untrained_network(0, PAPER)
    engines, manifests, best = {}, {}, {}
    for weights in ("float32", "float16"):
        model = tmp_path / f"{weights}.onnx"
        manifests[weights] = export(model, network, "paper1", extra, weights=weights, steps=2).manifest
        engines[weights] = OnnxEngine(model, threads=1)
        engines[weights].warm_up()
        print(f"{weights}: {model.stat().st_size / 1e6:.1f} MB")
    for weights in [*engines] * ROUNDS:
        p50 = decision_ms(engines[weights], manifests[weights], DECISIONS)["p50"]
        best[weights] = min(best.get(weights, np.inf), p50)
    ratio = best["float16"] / best["float32"]
    print(f"decision p50: float32 {best['float32']:.1f} ms, float16 {best['float16']:.1f} ms, ratio {ratio:.2f}")
    assert ratio < MOST
    for engine in engines.values():
        engine.close()
