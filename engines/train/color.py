"""The last stage of the paper's network: a frozen colour encoder joins a policy that was trained without images.

    python -m engines.train.color docs/results/onboard-v2/policy.onnx onboard-v2 engines/pretrained/onboard-v2.onnx

Arguments: the policy without colour, the model whose colour encoder is taken, and the model to write. The policy
drives on the training's maps with rendered images; `TEACHER` labels what it sees. Only the GRU's weights of the colour
features learn, from zero and of rank `RANK`, until they no longer help in drives that are held out. Without an image
the features are zero, so that the policy is then, number for number, the one that was trained without colour.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from engines.export.export import HALF_PRECISION_NODES, staged
from engines.train.batched.learner import teacher_loss
from engines.train.batched.policy import SmallPolicy, policy_of
from engines.train.config import load_train_config, rules_of
from engines.train.drives.domain import furniture_seeds
from engines.train.drives.places import draw_drives, make_building
from hil.drive.fast.drive import drive_fast
from hil.maps.materials import draw_appearance
from onboard.config.pretrained import model_path
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.contract import INPUTS
from onboard.policy.encode import ColorFeed, RgbScale, rgb_tensor, tensors
from onboard.policy.manifest import OwnManifest, check_engine, load_manifest, save_manifest, sha256_of
from onboard.policy.network_policy import NetworkPolicy, load_policy
from onboard.values.errors import InputError
from onboard.values.messages import Decision, Memory, Observation

RECIPE = Path(__file__).with_name("onboard-v2.toml")
TEACHER = "onboard-s"
BUILDINGS, SHARING, HELD_OUT, LONGEST_S = 8, 3, 0.25, 60.0
"""Buildings, drives with images in each, the share of drives that is held out, and the end of a drive [s]."""
RANK, RATE, EPOCHS, PATIENCE, SEED = 8, 2e-3, 60, 8, 17
RGB, FEATURES, PREFIX = "rgb", "rgb_features", "color."
MARK = "/network/Mul_output_0"
"""The colour features in a model of the paper's network: encoder times presence of an image."""


# ---- Models


def encoder_of(model: Path) -> onnx.ModelProto:
    """Return the colour encoder of a model: rgb (1, 3, 144, 256) to features (1, n). Raises InputError."""
    proto = onnx.shape_inference.infer_shapes(onnx.load(model))
    try:
        return onnx.utils.Extractor(proto).extract_model([RGB], [MARK])
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"{model}: has no colour encoder") from error


def joined(student: Path, encoder: onnx.ModelProto, weights: npt.NDArray[np.float32]) -> onnx.ModelProto:
    """Return a policy's model in which the GRU also takes colour features.

    weights: (3 memory, features) in the order of ONNX's gates
    """
    proto = onnx.load(student)
    graph, taken = proto.graph, {node.name for node in encoder.graph.node}
    if any(node.name in taken for node in graph.node):
        raise InputError(f"{student}: has a colour encoder already")
    gru = next(node for node in graph.node if node.op_type == "GRU")
    rows = next(node for node in graph.node if gru.input[0] in node.output)
    before, name = rows.input[0], gru.input[1]
    half = next(one for one in graph.initializer if one.name.removesuffix(".half") == name)
    wide = np.concatenate([numpy_helper.to_array(half)[0], weights.astype(np.float16)], 1)[None]
    half.CopyFrom(numpy_helper.from_array(wide.astype(np.float16), half.name))
    rows.input[0] = f"{PREFIX}{FEATURES}"
    both = helper.make_node("Concat", [before, MARK], [rows.input[0]], f"{PREFIX}concat", axis=1)
    nodes = list(graph.node)
    at = next(index for index, node in enumerate(nodes) if node.name == rows.name)
    del graph.node[:]
    graph.node.extend([*encoder.graph.node, *nodes[:at], both, *nodes[at:]])
    graph.initializer.extend(encoder.graph.initializer)
    graph.input.insert(0, helper.make_tensor_value_info(RGB, TensorProto.FLOAT, INPUTS[RGB].type.shape))
    onnx.checker.check_model(proto)
    return proto


# ---- Drives with images


class Driven(NamedTuple):
    """Decisions of one drive: scan (T, 180), state (T, 13), colour features (T, n), the teacher's logits (T, 28)."""

    scan: npt.NDArray[np.float32]
    state: npt.NDArray[np.float32]
    color: npt.NDArray[np.float32]
    taught: npt.NDArray[np.float32]


class Watching(NetworkPolicy):
    """A policy without colour that drives a robot with colour, and keeps what it and its teacher saw and chose."""

    wants_color = True

    def __init__(self, student: Path, teacher: NetworkPolicy, encoder: OnnxEngine) -> None:
        super().__init__(OnnxEngine(student, threads=1), load_manifest(student))
        self._teacher, self._encoder, self._memory = teacher, encoder, teacher.initial_memory()
        self.rows: list[tuple[npt.NDArray[Any], ...]] = []

    def begin(self) -> None:
        """Forget the last drive."""
        self.rows, self._memory = [], self._teacher.initial_memory()

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the student's decision."""
        if not memory.any():
            self._memory = self._teacher.initial_memory()
        taught, self._memory = self._teacher.decide(observation, self._memory)
        given = tensors(observation, memory, self.manifest)
        image = rgb_tensor(observation.color, RgbScale())
        features = next(iter(self._encoder.run({RGB: image}).values()))
        self.rows.append((given["scan"][0], given["state"][0], features[0], taught.logits))
        return super().decide(observation, memory)

    def driven(self) -> Driven:
        """Return the decisions since `begin`."""
        return Driven(*(np.stack(column).astype(np.float32) for column in zip(*self.rows, strict=True)))


def drives(student: Path, encoder: onnx.ModelProto, buildings: int) -> Iterator[Driven]:
    """Yield drives on the maps of the training, a few in each furnished building. Raises InputError."""
    config = load_train_config(RECIPE)
    robot, maps = rules_of(config).robot, config.places.maps
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(encoder, file := Path(folder) / "encoder.onnx")
        teacher = load_policy(model_path(TEACHER), lambda path, _: OnnxEngine(path, threads=1))
        policy = Watching(student, teacher, OnnxEngine(file, threads=1))
    order = np.random.default_rng(SEED).permutation(len(maps))
    for number, seed in enumerate(furniture_seeds([SEED], buildings)):
        building = make_building(config.places, maps[order[number % len(maps)]], seed, robot)
        setting = replace(building.setting, look=draw_appearance(seed))
        for episode, _ in draw_drives(config.places, building, np.random.default_rng(seed))[:SHARING]:
            policy.begin()
            drive_fast(setting, episode, policy, number, LONGEST_S)
            yield policy.driven()


# ---- The stage


class Columns(nn.Module):
    """The GRU's weights of colour features (3 memory, n) in PyTorch's order, of rank `RANK` and zero at first."""

    def __init__(self, gates: int, features: int, scale: float) -> None:
        super().__init__()
        self.down = nn.Linear(features, RANK, bias=False)
        self.up = nn.Linear(RANK, gates, bias=False)
        nn.init.normal_(self.down.weight, std=1.0 / (scale * features**0.5))
        nn.init.zeros_(self.up.weight)

    def forward(self, features: Tensor) -> Tensor:
        """Return what the features add to the GRU's gates."""
        added: Tensor = self.up(self.down(features))
        return added

    def weights(self) -> npt.NDArray[np.float32]:
        """Return the product in the order of ONNX's gates: z, r, h, not r, z, n."""
        r, z, n = (self.up.weight @ self.down.weight).detach().chunk(3)
        return np.asarray(torch.cat([z, r, n]).numpy(), np.float32)


def loss_of(policy: SmallPolicy, columns: Columns, drive: Driven, *, blind: bool = False) -> Tensor:
    """Return the mean divergence [nats] of the policy from its teacher over a drive. blind: without the images."""
    weights = dict(policy.gru.named_parameters())
    recurrent, bias = weights["weight_hh_l0"], weights["bias_hh_l0"]
    with torch.no_grad():
        rows = policy.encode(torch.from_numpy(drive.scan), torch.from_numpy(drive.state))
        gates = rows @ weights["weight_ih_l0"].T + weights["bias_ih_l0"]
        wanted = torch.softmax(torch.from_numpy(drive.taught), dim=1)
    if not blind:
        gates = gates + columns(torch.from_numpy(drive.color))
    memory, states = torch.zeros(policy.gru.hidden_size), []
    for gate in gates:
        r, z, n = gate.chunk(3)
        hr, hz, hn = (recurrent @ memory + bias).chunk(3)
        update = torch.sigmoid(z + hz)
        memory = (1.0 - update) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + update * memory
        states.append(memory)
    return teacher_loss(torch.log_softmax(policy.actor(torch.stack(states)), dim=1), wanted)


def learn(policy: SmallPolicy, found: Sequence[Driven]) -> tuple[Columns, dict[str, float]]:
    """Return the columns that were best in the drives held out, and the divergences [nats] there."""
    torch.manual_seed(SEED)
    policy.requires_grad_(False)
    kept = max(1, round(HELD_OUT * len(found)))
    shown, held = found[:-kept], found[-kept:]
    scale = float(np.sqrt(np.mean([np.mean(np.square(drive.color)) for drive in shown])))
    columns = Columns(3 * policy.gru.hidden_size, found[0].color.shape[1], max(scale, 1e-6))
    optimizer = torch.optim.Adam(columns.parameters(), lr=RATE)

    def judged(blind: bool = False) -> float:
        with torch.no_grad():
            losses = [float(loss_of(policy, columns, drive, blind=blind)) for drive in held]
        return float(np.average(losses, weights=[len(drive.scan) for drive in held]))

    without = best = judged(blind=True)
    state, waited, epochs = copy.deepcopy(columns.state_dict()), 0, 0
    while epochs < EPOCHS and waited < PATIENCE:
        for index in torch.randperm(len(shown)).tolist():
            optimizer.zero_grad()
            loss_of(policy, columns, shown[index]).backward()
            optimizer.step()
        epochs, waited, now = epochs + 1, waited + 1, judged()
        sys.stdout.write(f"epoch {epochs}: {now:.4f} nats in the drives held out, {without:.4f} without images\n")
        if now < best:
            best, state, waited = now, copy.deepcopy(columns.state_dict()), 0
    columns.load_state_dict(state)
    return columns, {
        "drives": len(found), "held_out": kept, "decisions": sum(len(drive.scan) for drive in found),
        "epochs": epochs, "divergence_nats": best, "divergence_without_images_nats": without,
    }  # fmt: skip


def join(student: Path, encoder: onnx.ModelProto, out: Path, found: Sequence[Driven]) -> None:
    """Train on drives and write the model with its manifest. Raises OnboardError."""
    manifest, policy = load_manifest(student), policy_of(student)
    assert isinstance(manifest, OwnManifest)  # `policy_of` took it
    columns, numbers = learn(policy, found)
    proto = joined(student, encoder, columns.weights())
    image = ColorFeed(name=RGB, shape=INPUTS[RGB].type.shape, feed="color")
    parameters = manifest.extra["parameters"] + columns.weights().size
    parameters += sum(math.prod(weight.dims) for weight in encoder.graph.initializer)
    changes = {
        "inputs": (image, *manifest.inputs),
        "half_precision_nodes": HALF_PRECISION_NODES,
        "extra": {**manifest.extra, "parameters": parameters, "color": numbers},
    }
    with staged(out) as file:
        onnx.save(proto, file)
        made = manifest.model_copy(update={**changes, "sha256": sha256_of(file)})
        save_manifest(file, made)
        with contextlib.closing(OnnxEngine(file, threads=1)) as engine:
            check_engine(file, made, engine.inputs, engine.outputs)
    sys.stdout.write(f"{out}: {numbers}\n")


def main(student: Path, encoder: Path, out: Path) -> None:
    """Drive, train and write. Raises OnboardError."""
    part = encoder_of(encoder)
    join(student, part, out, list(drives(student, part, BUILDINGS)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), model_path(sys.argv[2]), Path(sys.argv[3]))
