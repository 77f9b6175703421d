"""Writes docs/performance.md: figures beside peers and limits, and how they grow (`make performance`)."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from onboard.commands.bench.output import image_message
from onboard.config.config import RecordSection
from onboard.config.pretrained import model_path
from onboard.config.toml_file import read_toml
from onboard.drivers.engines.onnx_engine import OnnxEngine, widened_model
from onboard.perception.fusion_kernel import lower_ranges, projection_of
from onboard.perception.kernels import planar
from onboard.policy.manifest import load_manifest
from onboard.policy.parity import random_inputs, zero_memory
from onboard.recording.recorder import FLUSH_S, Recorder
from onboard.values.messages import BINS, Pose
from tests.benchmarks.conftest import ACCEPTED, processor
from tests.benchmarks.test_fuse_speed import LENS, LIMITS, best_ms, landscape
from tests.benchmarks.test_record_cost import real_images

MODEL = "onboard-v1"
ROUNDS = 15
COPIED = 32_000_000
SIDE = 1536
RECORDED_S = 2
Rows = Iterable[Sequence[str]]


def table(head: Sequence[str], rows: Rows) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def own_ms(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the least processor time of a call in this thread [ms]."""
    return best_ms(call, rounds=rounds)[0]


# ---- Limits of this machine


def copy_bytes_per_ms() -> float:
    """Return how many bytes a plain copy reads in a millisecond."""
    source, target = np.ones(COPIED, np.uint8), np.zeros(COPIED, np.uint8)
    return COPIED / own_ms(lambda: np.copyto(target, source))


def products_per_ms() -> float:
    """Return how many multiply-accumulates of float32 a large matrix product does in a millisecond on one thread.

    The faster of PyTorch's and ONNX Runtime's: PyTorch's library is slow on some processors.
    """
    torch.set_num_threads(1)
    a, b = torch.ones(SIDE, SIDE), torch.ones(SIDE, SIDE)
    square = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [SIDE, SIDE]) for name in "abc"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["a", "b"], ["c"])], "c", square[:2], square[2:])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(proto, file := Path(folder) / "product.onnx")
        engine = OnnxEngine(file, threads=1)
    tensors = {"a": a.numpy(), "b": b.numpy()}
    return SIDE**3 / min(own_ms(lambda: a @ b, 5), own_ms(lambda: engine.run(tensors), 5))


def multiply_accumulates(model: Path) -> int:
    """Return the multiply-accumulates of a decision: convolutions, matrix products and GRUs."""
    proto = onnx.shape_inference.infer_shapes(onnx.load_from_string(widened_model(model)))
    shapes = {one.name: list(one.dims) for one in proto.graph.initializer}
    for value in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        shapes[value.name] = [axis.dim_value for axis in value.type.tensor_type.shape.dim]
    total = 0
    for node in proto.graph.node:
        weights = [shapes[name] for name in node.input[1:3] if name in shapes]
        if node.op_type == "Conv":
            total += int(np.prod(shapes[node.output[0]]) * np.prod(weights[0][1:]))
        elif node.op_type in ("Gemm", "MatMul"):
            total += int(np.prod(weights[0]))
        elif node.op_type == "GRU":
            total += int(np.prod(weights[0]) + np.prod(weights[1]))
    return total


# ---- The fusion and its growth


def fusion(
    images: list[np.ndarray], height: int = 480, width: int = 848, cameras: int = 4, history: int = 1
) -> Callable[[], None]:
    """Return the fusion of real images at another size; images and mounts are taken in turn.

    history: each image is fused so often, from poses 2 cm apart
    """
    rows, columns = np.arange(height) * 480 // height, np.arange(width) * 848 // width
    taken = [np.ascontiguousarray(images[i % len(images)][np.ix_(rows, columns)]) for i in range(cameras)]
    lens = (LENS[0] * width / 848, LENS[1] * height / 480, (width - 1) / 2, (height - 1) / 2, LENS[4])
    mounts = landscape()
    projections = [projection_of((height, width), *lens, mounts[i % 4], *LIMITS) for i in range(cameras)]

    poses = [planar(Pose(-0.02 * i, 0.0, 0.0)) for i in range(history)]

    def fuse() -> None:
        ranges_m = np.full(BINS, np.inf, np.float32)
        for image, projection in zip(taken, projections, strict=True):
            for pose in poses:
                lower_ranges(ranges_m, image, projection, pose)

    return fuse


SIZES = ((240, 424), (480, 640), (480, 848), (720, 1280))
CAMERAS, HISTORY, RATES_HZ = (1, 2, 4, 8), (1, 2, 5, 10), (1, 3, 10, 30)


def growth(images: list[np.ndarray]) -> str:
    """Return the tables of growth, each figure in processor time."""
    sizes = [own_ms(fusion(images, height, width)) for height, width in SIZES]
    cameras = [own_ms(fusion(images, cameras=count)) for count in CAMERAS]
    histories = [own_ms(fusion(images, history=count)) for count in HISTORY]
    text = table(
        ["four images", *(f"{width}x{height}" for height, width in SIZES)],
        [
            ["fusion, ms", *(f"{ms:.2f}" for ms in sizes)],
            ["ns a pixel", *(f"{1e6 * ms / (4 * h * w):.2f}" for ms, (h, w) in zip(sizes, SIZES, strict=True))],
        ],
    )
    text += "\n" + table(["cameras of 848x480", *map(str, CAMERAS)], [["fusion, ms", *(f"{ms:.2f}" for ms in cameras)]])
    text += "\n" + table(
        ["`scan.history`, four cameras of 848x480", *map(str, HISTORY)],
        [["fusion while the base moves, ms", *(f"{ms:.1f}" for ms in histories)]],
    )
    recorded = [recording_ms(images, rate) for rate in RATES_HZ]
    text += "\n" + table(
        ["recorded images of each of four cameras a second", *map(str, RATES_HZ)],
        [
            ["writing thread, ms a second", *(f"{ms:.0f}" for ms, _ in recorded)],
            ["MB a minute", *(f"{mb:.0f}" for _, mb in recorded)],
        ],
    )
    return text


def recording_ms(images: list[np.ndarray], rate_hz: int) -> tuple[float, float]:
    """Return the processor time of the writing thread for a second [ms], and the data of a minute [MB]."""
    messages = [image_message(f"/{i}/depth/image", "16UC1", image) for i, image in enumerate(images[:4])]
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(RecordSection(directory=Path(folder)), "growth", {}, wall_ns=0, now_ns=0)
        (thread,) = (one for one in threading.enumerate() if one.name == "recorder")
        begun = time.clock_gettime(clock := time.pthread_getcpuclockid(thread.ident or 0))
        for _ in range(rate_hz * RECORDED_S):
            recorder.write_together(messages, 0, 0)
            while recorder.waiting:
                time.sleep(0.002)
        time.sleep(1.5 * FLUSH_S)
        spent_s = time.clock_gettime(clock) - begun
        recorder.close()
        return spent_s * 1e3 / RECORDED_S, recorder.stats().bytes / 1e6 / RECORDED_S * 60


# ---- The page


def limits_table(images: list[np.ndarray], rows: dict[str, dict[str, Any]]) -> str:
    """Return each figure beside the limit that the machine sets."""
    fusion_ms, copied = own_ms(fusion(images)), 4 * 480 * 848 * 2
    read_ms = copied / copy_bytes_per_ms()
    model = model_path(MODEL)
    manifest, engine = load_manifest(model), OnnxEngine(model, threads=1)
    inputs = {**random_inputs(manifest, np.random.default_rng(0)), **zero_memory(manifest)}
    engine_ms, work = own_ms(lambda: engine.run(inputs)), multiply_accumulates(model)
    product_ms = work / products_per_ms()
    lines = [
        ["fusion, four 848x480, ms", f"{fusion_ms:.2f}", "a copy of the images", f"{read_ms:.2f}",
         f"{fusion_ms / read_ms:.1f}"],
        [f"engine of {MODEL}, ms", f"{engine_ms:.1f}", f"its {work / 1e9:.2f} G multiply-accumulates in one matrix "
         "product", f"{product_ms:.1f}", f"{engine_ms / product_ms:.1f}"],
    ]  # fmt: skip
    for name in ("tick lateness p99, kernel", "tick lateness max, kernel"):
        if name in rows:
            figures = rows[name]
            lines.append([name.removesuffix(", kernel") + ", ms", f"{figures['value']:.3f}", "cyclictest",
                          f"{figures['peer']:.3f}", f"{figures['ratio']:.1f}"])  # fmt: skip
    return table(["what", "figure", "limit of the machine", "limit, ms", "figure / limit"], lines)


def bench_table(rows: Iterable[dict[str, Any]]) -> str:
    """Return the rows of `onboard bench`."""
    return table(
        ["what", "figure", "peer", "figure / peer", "budget", "", "peer and conditions"],
        (
            [
                one["name"],
                f"{one['value']:.3g} {one['unit']}",
                *(("-", "-") if one["peer"] is None else (f"{one['peer']:.3g}", f"{one['ratio']:.2g}")),
                f"{one['budget']:g}",
                "ok" if one["ok"] else "over",
                one["note"],
            ]
            for one in rows
        ),
    )


def machine() -> str:
    """Return what the figures were measured on, and what else ran."""
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{os.cpu_count()} cores of {processor()}; load {load} (1, 5, 15 minutes)"


PAGE = """# Performance

Written by `make performance` on {date}, code {commit}.

The machine: {machine}.

A load above the number of cores means that other programs ran. They slow the figures of `onboard bench` and of
cyclictest, which count real time. All others count the processor time of one thread. `onboard bench` fuses synthetic
images, the growth tables real ones. Its tick lateness is of an idle loop; [benchmarks.md](benchmarks.md) has the loop
with cameras, policy and recorder.

## Beside peers and budgets

`onboard bench --config examples/former.toml`: each figure beside the same by other means, in the same run.

{bench}
## Beside the limit of the machine

{limits}
## Growth

The scan has {bins} bins, by the contract of the policy; so nothing grows with their number.

{growth}
With `scan.history` N, each of N images is fused again while the base moves. The default is 1.

## Accepted ratios

`make bench` measures these anew and fails if one is a fifth below: how many times as long the peer takes. They hold for
this processor; `tests/benchmarks/ratios.toml` has a table for each.

{ratios}
"""


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--for", dest="seconds", type=float, default=40.0)
    options = parser.parse_args()
    figures = machine()
    command = [sys.executable, "-m", "onboard", "bench", "--for", str(options.seconds), "--json", "-"]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not run.stdout:
        return run.returncode
    measured = json.loads(run.stdout)["rows"]
    images = real_images()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    accepted = read_toml(ACCEPTED).get(processor(), {})
    page = PAGE.format(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        commit=commit.strip(),
        machine=figures,
        bench=bench_table(measured),
        limits=limits_table(images, {one["name"]: one for one in measured}),
        bins=BINS,
        growth=growth(images),
        ratios=table(["row", "times"], ([name, f"{ratio:g}"] for name, ratio in accepted.items())),
    )
    options.page.write_text(page.rstrip() + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
