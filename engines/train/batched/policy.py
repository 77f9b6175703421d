"""The policies of batched training, and their export as ONNX with a manifest of version 2.

It takes the raw values that the runtime can give (docs/policies.md) and scales them itself. ONNX is imported when it is
exported.
"""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from engines.network.network import ScanEncoder, parameter_count
from engines.network.policy_checkpoint import CONTROL_HZ, DECISION_HZ, DELAY_TICKS, MANIFEST_FIELDS, MEMORY_RESET_S
from engines.runs.torch_file import read_torch, require_finite
from engines.train.batched.config import NetworkSection
from engines.train.batched.packed_gru import packed_gru
from onboard.config.config import RatesSection
from onboard.policy.contract import ACTIONS, CONTRACT_VERSION
from onboard.policy.encode import ColorFeed
from onboard.policy.manifest import OwnManifest, check_engine, load_manifest, save_manifest, sha256_of
from onboard.policy.parity import Parity, compare
from onboard.values.errors import DisagreementError, InputError
from onboard.values.messages import BINS

STATE = 13
"""Values of `state`: goal distance [m], cos, sin of its bearing from the robot; pose x, y [m], cos, sin of the yaw,
v [m/s], w [rad/s] in the start frame; standard deviations of position [m] and yaw [rad]; set point v, w."""
CRITIC_VALUES = 6
"""Values that the critic alone is given."""
SCAN_CHANNELS = (32, 64, 128)
SCAN_FEATURES, STATE_FEATURES, MEMORY, HIDDEN = 256, 128, 640, 128
FEATURES = SCAN_FEATURES + STATE_FEATURES

CRITIC = "critic_"
"""Of the names of the critic's own layers."""

MOST_PARAMETERS = 16_000_000
MOST_BYTES = 64_000_000
"""Limits of an exported model: those of the paper's sizes without the colour encoder."""

# ---- Scaling of the raw values

FAR_M, NEAR_M, MOST_W_RADPS = 10.0, 1.0, 3.0
SD_SCALE, MOST_SCALED = 5.0, 5.0
SCALED = STATE + 4


def scaled_state(state: Tensor) -> Tensor:
    """Return (N, 17) values of about unit size of a state (N, 13): four more views of the goal follow the 13."""
    distance, cos, sin = state[:, 0:1], state[:, 1:2], state[:, 2:3]
    near = distance.clamp(0.0, NEAR_M) / NEAR_M
    logarithm = torch.log1p(distance.clamp(min=0.0))
    parts = [
        distance / FAR_M, cos, sin, state[:, 3:5] / FAR_M, state[:, 5:8], state[:, 8:9] / MOST_W_RADPS,
        state[:, 9:11] * SD_SCALE, state[:, 11:12], state[:, 12:13] / MOST_W_RADPS,
        logarithm, near, near * cos, near * sin,
    ]  # fmt: skip
    return torch.cat(parts, dim=1).clamp(-MOST_SCALED, MOST_SCALED)


def scaled_critic(values: Tensor) -> Tensor:
    """Return (N, 12): values of any unit (N, 6) in a linear and in a logarithmic scale."""
    linear = (values / FAR_M).clamp(-MOST_SCALED, MOST_SCALED)
    return torch.cat([linear, torch.sign(values) * torch.log1p(values.abs())], dim=1)


# ---- The network


class SmallPolicy(nn.Module):
    """Scan and state -> LayerNorm -> GRU -> actor; the critic is given privileged values too and is not exported."""

    def __init__(self) -> None:
        super().__init__()
        self.scan = nn.Sequential(ScanEncoder(SCAN_CHANNELS, SCAN_FEATURES), nn.ReLU())
        self.state = nn.Sequential(
            nn.Linear(SCALED, STATE_FEATURES), nn.ReLU(), nn.Linear(STATE_FEATURES, STATE_FEATURES), nn.ReLU()
        )
        self.norm = nn.LayerNorm(FEATURES)
        self.gru = nn.GRU(FEATURES, MEMORY)
        self.actor = nn.Linear(MEMORY, len(ACTIONS))
        self.critic_in = nn.Linear(MEMORY + 2 * CRITIC_VALUES, HIDDEN)
        self.critic_out = nn.Linear(HIDDEN, 1)
        _start(self)

    @property
    def memory_shape(self) -> tuple[int, int]:
        """Return (layers, width) of the recurrent state."""
        return self.gru.num_layers, self.gru.hidden_size

    def encode(self, scan: Tensor, state: Tensor) -> Tensor:
        """Return features (N, 384) of scans (N, 180) as fractions of 10 m and states (N, 13)."""
        both = torch.cat([self.scan(scan[:, None]), self.state(scaled_state(state))], dim=1)
        features: Tensor = self.norm(both)
        return features

    def remember(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the GRU's output (N, width) and memory (layers, N, width) after one decision."""
        states, memory = self.gru(features[None], memory)
        return states[0], memory

    def step(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (N, 28) and memory (1, N, 640) of one decision."""
        states, memory = self.remember(features, memory)
        logits: Tensor = self.actor(states)
        return logits, memory

    def unroll(self, features: Tensor, sizes: Tensor, memory: Tensor) -> Tensor:
        """Return the GRU's output (R, 640) for features (R, 384) in packed order.

        sizes:  (T,) active runs at each step, on the CPU, as in `PackedSequence.batch_sizes`
        memory: (1, runs, 640) before each run, the longest run first; it gets no gradient
        """
        if features.device.type == "cpu":
            return packed_gru(self.gru, features, sizes, memory)
        self.gru.train()  # cuDNN has no backward pass in evaluation mode
        states, _ = self.gru(PackedSequence(features, sizes), memory)
        data: Tensor = states.data
        return data

    def sharpen(self, factor: float) -> None:
        """Multiply all logits by a factor. The best action stays; above 1 the others become less likely."""
        with torch.no_grad():
            self.actor.weight.mul_(factor)
            self.actor.bias.mul_(factor)

    def keep_critic_gradient(self) -> None:
        """Drop the gradients of all layers that are not the critic's own."""
        for name, weight in self.named_parameters():
            if not name.startswith(CRITIC):
                weight.grad = None

    def value(self, states: Tensor, critic: Tensor) -> Tensor:
        """Return values (N,), in the learner's scale, of GRU outputs (N, 640) and privileged values (N, 6)."""
        given = torch.cat([states, scaled_critic(critic)], dim=1)
        values: Tensor = self.critic_out(torch.relu(self.critic_in(given)))[:, 0]
        return values


GOAL_VALUES, POSE_VALUES, ACTION_VALUES = [0, 1, 2, 13, 14, 15, 16], [3, 4, 5, 6, 7, 8, 9, 10], [11, 12]
"""Columns of `scaled_state`."""


class PaperPolicy(SmallPolicy):
    """The network of paper 1, Fig. 9, without its colour encoder: an encoder of each input -> GRU -> actor.

    Other than the paper's it is given the filter's pose and deviation in place of odometry and last fix, the goal in
    four more views, and the set point in place of the action's index.
    """

    def __init__(self, sizes: NetworkSection) -> None:
        nn.Module.__init__(self)
        self.scan = nn.Sequential(ScanEncoder(sizes.channels, sizes.scan))
        self.goal, self.pose = (
            nn.Sequential(nn.Linear(size, sizes.hidden), nn.ReLU(), nn.Linear(sizes.hidden, sizes.vector))
            for size in (len(GOAL_VALUES), len(POSE_VALUES))
        )
        self.action = nn.Linear(len(ACTION_VALUES), sizes.action)
        features = sizes.scan + 2 * sizes.vector + sizes.action
        self.gru = nn.GRU(features, sizes.memory, num_layers=sizes.layers)
        self.actor = nn.Linear(sizes.memory, len(ACTIONS))
        self.critic_in = nn.Linear(sizes.memory + 2 * CRITIC_VALUES, HIDDEN)
        self.critic_out = nn.Linear(HIDDEN, 1)
        _start(self)

    def encode(self, scan: Tensor, state: Tensor) -> Tensor:
        """Return features (N, encoded) of scans (N, 180) as fractions of 10 m and states (N, 13)."""
        values = scaled_state(state)
        parts = [
            self.scan(scan[:, None]), self.goal(values[:, GOAL_VALUES]), self.pose(values[:, POSE_VALUES]),
            self.action(values[:, ACTION_VALUES]),
        ]  # fmt: skip
        return torch.cat(parts, dim=1)

    def take_scan(self, other: SmallPolicy) -> bool:
        """Take the scan encoder of a policy; return whether it has the same sizes, else nothing is taken."""
        mine, theirs = self.scan[0].state_dict(), other.scan[0].state_dict()
        if any(mine[name].shape != theirs[name].shape for name in mine):
            return False
        self.scan[0].load_state_dict(theirs)
        return True


def policy_like(weights: Mapping[str, Tensor]) -> SmallPolicy:
    """Return a policy of the kind and the sizes that some weights have. Raises KeyError, ValidationError."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if "goal.0.weight" not in weights:
            return SmallPolicy()
        hidden, convs = weights["goal.0.weight"], [weights[f"scan.0.convs.{at}.conv.weight"] for at in range(3)]
        sizes = {
            "channels": tuple(len(one) for one in convs), "scan": len(weights["scan.0.linear.weight"]),
            "hidden": len(hidden), "vector": len(weights["goal.2.weight"]), "action": len(weights["action.weight"]),
            "memory": weights["gru.weight_hh_l0"].shape[1],
            "layers": sum(name.startswith("gru.weight_hh_l") for name in weights),
        }  # fmt: skip
        return PaperPolicy(NetworkSection.model_validate(sizes))


def _start(policy: SmallPolicy) -> None:
    """Set the initial weights: nearly equal logits, orthogonal recurrent weights."""
    for name, weight in policy.gru.named_parameters():
        if name.startswith("weight_hh"):
            for gate in weight.data.chunk(3):
                nn.init.orthogonal_(gate)
        elif name.startswith("bias"):
            nn.init.zeros_(weight)
    for layer, gain in ((policy.actor, 0.01), (policy.critic_out, 0.1)):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)


def policy_in(path: Path) -> SmallPolicy:
    """Return the policy of a learner's checkpoint, on the CPU. Raises InputError for any other file."""
    weights = read_torch(path).get("policy")
    try:
        policy = policy_like(weights)  # type: ignore[arg-type]  # checked by PyTorch
        policy.load_state_dict(weights)  # type: ignore[arg-type]
    except (RuntimeError, TypeError, AttributeError, KeyError, ValidationError) as error:
        raise InputError(
            f"{path}: not a checkpoint of the small policy: {str(error).splitlines()[-1].strip()}"
        ) from error
    require_finite(path, policy.state_dict())
    return policy.eval()


def policy_of(model: Path) -> SmallPolicy:
    """Return the policy of a model that `export` wrote, with a new critic.

    Raises InputError, ConfigError or EngineError.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper

    from engines.export.fp16 import HALF_SUFFIX

    manifest = load_manifest(model)
    if isinstance(manifest, OwnManifest) and any(isinstance(feed, ColorFeed) for feed in manifest.feeds):
        raise InputError(
            f"{model}: sees images, which the batched world lacks: train the policy without colour, for onboard-v2 "
            "docs/results/onboard-v2/policy.onnx, then join colour (engines/train/color.py)"
        )
    if manifest.contract_version == CONTRACT_VERSION:
        raise InputError(
            f"{model}: not a model of the small policy: this version trains no policy of contract version 1; "
            "docs/evaluation.md names the commit that does"
        )
    try:
        proto = onnx.load(model)
        found = {
            one.name.removesuffix(HALF_SUFFIX): torch.tensor(numpy_helper.to_array(one)).float()
            for one in proto.graph.initializer
        }
        cells = [node for node in proto.graph.node if node.op_type == "GRU"]
        weights = {name.removeprefix(PREFIX): value for name, value in found.items() if name.startswith(PREFIX)}
        for layer, cell in enumerate(cells):
            weights |= _gru_weights(layer, *(found[name] for name in cell.input[1:4]))
        policy = policy_like(weights)
        missing, unknown = policy.load_state_dict(weights, strict=False)
    except (OSError, DecodeError, KeyError, RuntimeError, ValidationError) as error:
        reason = str(error).strip("' \n").splitlines()[-1:] or [type(error).__name__]
        raise InputError(f"{model}: not a model of the small policy: {reason[0].strip()}") from error
    if unknown or not all(name.startswith(CRITIC) for name in missing):
        raise InputError(f"{model}: not a model of the small policy: {', '.join([*unknown, *missing][:3])}")
    require_finite(model, policy.state_dict())
    if not isinstance(manifest, OwnManifest):
        raise InputError(f"{model}: not a model of the small policy: contract version {manifest.contract_version}")
    _checked(model, manifest, policy.eval(), "taken")
    return policy


def _gru_weights(layer: int, inputs: Tensor, recurrent: Tensor, biases: Tensor) -> dict[str, Tensor]:
    """Return PyTorch's weights of a GRU's layer from those of an ONNX node: its gates are z, r, h, not r, z, n."""

    def ordered(gates: Tensor) -> Tensor:
        z, r, h = gates.chunk(3)
        return torch.cat([r, z, h])

    first, second = biases[0].chunk(2)
    parts = (inputs[0], recurrent[0], first, second)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"gru.{name}_l{layer}": ordered(part) for name, part in zip(names, parts, strict=True)}


# ---- Export

PREFIX = "policy."
"""Of the names of the weights in a model."""
INPUT_NAMES, OUTPUT_NAMES = ("scan", "state", "memory_in"), ("logits", "memory_out")
NO_DEVIATION = (1.0, 1.0)
"""Standard deviations [m, rad] without a covariance."""
MOST_APART = 1e-4
CHECKED = 20
"""Largest difference of a logit between ONNX Runtime and PyTorch, and decisions that are compared."""


class _Step(nn.Module):
    """One decision without the critic, tensors in the order of INPUT_NAMES and OUTPUT_NAMES."""

    def __init__(self, policy: SmallPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, scan: Tensor, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy.step(self.policy.encode(scan, state), memory)


class StepEngine:
    """The policy in PyTorch as `interfaces.Engine`."""

    name = "torch"

    def __init__(self, policy: SmallPolicy) -> None:
        self._step = _Step(policy)

    def warm_up(self) -> None:
        """Nothing to warm."""

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the outputs by name."""
        with torch.inference_mode():
            outputs = self._step(*(torch.from_numpy(tensors[name]) for name in INPUT_NAMES))
        return {name: output.numpy() for name, output in zip(OUTPUT_NAMES, outputs, strict=True)}

    def close(self) -> None:
        """Nothing to release."""


def exported_parameters(policy: SmallPolicy) -> int:
    """Return the number of parameters without the critic's."""
    return parameter_count(policy) - parameter_count(policy.critic_in) - parameter_count(policy.critic_out)


def onnx_bytes(policy: SmallPolicy) -> bytes:
    """Return the ONNX model of one decision of a policy on the CPU, with all weights."""
    import onnx

    from engines.export.export import OPSET, inline_shared_weights

    layers, width = policy.memory_shape
    zeros = (torch.zeros(1, BINS), torch.zeros(1, STATE), torch.zeros(layers, 1, width))
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the TorchScript exporter keeps the GRU as one node; it warns of its age
        torch.onnx.export(
            _Step(policy).eval(),
            zeros,
            content,  # type: ignore[arg-type]  # the TorchScript exporter writes to streams
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUT_NAMES),
            output_names=list(OUTPUT_NAMES),
        )
    proto = onnx.load_from_string(content.getvalue())
    inline_shared_weights(proto)
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())


def manifest_of(
    sha256: str, name: str, extra: Mapping[str, Any], goal: str = "robot", memory: tuple[int, int] = (1, MEMORY)
) -> OwnManifest:
    """Return the manifest.

    sha256: of the model's file; name: of the policy; memory: `SmallPolicy.memory_shape`
    goal:   frame of the goal, "robot" or "start"
    extra:  origin and training; `MANIFEST_FIELDS` in it become fields of the manifest, missing rates are the defaults
    """
    parts = [
        {"name": "goal", "shape": [3], "feed": "goal", "frame": goal, "fields": ["distance", "cos", "sin"]},
        {"name": "pose", "shape": [6], "feed": "pose", "fields": ["x", "y", "cos_yaw", "sin_yaw", "v", "w"]},
        {"name": "sd", "shape": [2], "feed": "pose_sd", "fields": ["position", "yaw"], "absent": list(NO_DEVIATION)},
        {"name": "set_point", "shape": [2], "feed": "last_action", "fields": ["v", "w"]},
    ]
    scan = {"feed": "scan", "unit": "fraction", "max_range_m": 10.0, "inf_value": 1.0, "blind_value": 0.0}
    rates, (layers, width) = RatesSection(), memory
    usual = {DELAY_TICKS: rates.delay_ticks, CONTROL_HZ: rates.control_hz, MEMORY_RESET_S: None}
    stated = {**usual, DECISION_HZ: rates.control_hz / rates.ticks_per_decision, **extra}
    table = {
        "contract_version": 2,
        "sha256": sha256,
        "policy": name,
        "inputs": [
            {"name": "scan", "shape": [1, BINS], **scan},
            {"name": "state", "shape": [1, STATE], "feed": "parts", "parts": parts},
        ],
        "memory": [{"input": "memory_in", "output": "memory_out", "shape": [layers, 1, width]}],
        "action": {
            "kind": "table",
            "output": "logits",
            "twists": [[action.v_mps, action.w_radps] for action in ACTIONS],
        },
        **{field: stated.pop(field) for field in MANIFEST_FIELDS},
        "extra": stated,
    }
    return OwnManifest.model_validate(table)


def export(policy: SmallPolicy, model: Path, name: str, extra: Mapping[str, Any], goal: str = "robot") -> Parity:
    """Write the model and its manifest; return the agreement of ONNX Runtime with PyTorch. The policy stays as it is.

    extra, goal: as in `manifest_of`

    All is checked before old files are replaced.
    Raises InputError for a model that is too large or cannot be written, DisagreementError for other logits.
    """
    from engines.export.export import staged

    on_cpu = copy.deepcopy(policy).cpu().float().eval()
    if (count := exported_parameters(on_cpu)) > MOST_PARAMETERS:
        raise InputError(f"{model}: {count} parameters, must be at most {MOST_PARAMETERS}")
    content = onnx_bytes(on_cpu)
    if len(content) > MOST_BYTES:
        raise InputError(f"{model}: {len(content)} bytes, must be at most {MOST_BYTES}")
    with staged(model) as part:
        part.write_bytes(content)
        manifest = manifest_of(sha256_of(part), name, {"parameters": count, **extra}, goal, on_cpu.memory_shape)
        save_manifest(part, manifest)
        return _checked(part, manifest, on_cpu, "written")


def _checked(model: Path, manifest: OwnManifest, policy: SmallPolicy, what: str) -> Parity:
    from onboard.drivers.engines.onnx_engine import OnnxEngine

    with contextlib.closing(OnnxEngine(model, threads=1)) as engine:
        check_engine(model, manifest, engine.inputs, engine.outputs)
        parity = compare(engine, StepEngine(policy), manifest, steps=CHECKED)
    if parity.max_logit_difference > MOST_APART:
        raise DisagreementError(
            f"{model.name}: not {what}: its logits differ by up to {parity.max_logit_difference:g} from PyTorch's"
        )
    return parity
