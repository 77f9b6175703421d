"""A model of another training: a proposed manifest from its tensors, and all that does not fit.

The proposal goes by names and sizes. Each guess is shown, since only the model's author knows what it was trained on.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from pydantic import ValidationError

from engines.export.foreign_model import copied, index_of, is_index, random_nodes
from onboard.assembly.policies import check_timing
from onboard.config.config import Config
from onboard.config.toml_file import validation_lines
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.actions import ContinuousAction, beyond
from onboard.policy.contract import ACTIONS, OWN_VERSION, TensorType, twist_of
from onboard.policy.encode import (
    ColorFeed,
    GoalFeed,
    OneFeed,
    PartsFeed,
    ScanFeed,
)
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import (
    ModelManifest,
    OwnManifest,
    load_manifest,
    manifest_path,
    misfits,
    read_manifest,
    save_manifest,
    sha256_of,
)
from onboard.policy.network_policy import NetworkPolicy
from onboard.policy.onnx_weights import weight_types
from onboard.values.errors import ConfigError, EngineError, InputError, OnboardError, naming

# ---- The proposal


@dataclass
class Proposal:
    """Keys of a manifest, and what was guessed, one line each. missing: what only the author knows."""

    table: dict[str, Any] = field(default_factory=dict)
    guesses: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class WrapOptions:
    """Options of `onboard-engines wrap`.

    v_mps, w_radps: ranges of a continuous action
    twists:         rows of a table of actions
    fov_deg:        bearings at which a scan begins and ends
    max_range_m:    range up to which a scan is fed
    """

    name: str | None = None
    v_mps: tuple[float, float] | None = None
    w_radps: tuple[float, float] | None = None
    twists: tuple[tuple[float, float], ...] = ()
    fov_deg: tuple[float, float] | None = None
    max_range_m: float = 10.0


STATE = re.compile(r"hidden|memory|state|rnn|gru|lstm|(^|_)[hc](_|x|\d|$)|^[hc]$", re.I)
KINDS = (
    ("color", re.compile(r"rgb|image|img|colou?r|camera|pixels", re.I)),
    ("scan", re.compile(r"scan|lidar|laser|range|ray|beam", re.I)),
    ("goal", re.compile(r"goal|target|compass", re.I)),
    ("last_action", re.compile(r"action|cmd|command", re.I)),
    ("pose", re.compile(r"pose|odom|vel|twist|gps|position", re.I)),
)
"""Names of inputs by kind, the first that fits."""
VECTORS: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "goal": {2: ("distance", "bearing"), 3: ("distance", "cos", "sin")},
    "last_action": {1: ("index",), 2: ("v", "w")},
    "pose": {2: ("v", "w"), 3: ("x", "y", "yaw"), 5: ("x", "y", "yaw", "v", "w")},
}
PLANE = re.compile(r"xy|cartesian", re.I)
"""A goal by its coordinates."""
UNKNOWN = "?"
"""Feed of an input that only the author knows."""
MOST_SCANS = 16
"""Most rows of a tensor that are guessed to be scans of the newest decisions."""
FEW_SECTORS = 24
"""A scan of fewer values is guessed to look ahead only."""
OUTPUT = re.compile(r"action|logit|mean|mu|cmd|policy|twist|vel", re.I)


def wrap(model: Path, folder: Path, options: WrapOptions) -> tuple[Path, Proposal]:
    """Write a copy of a model with a proposed manifest into a folder; return the copy and the proposal.

    A valid manifest that is there already is kept, with the digest of the new model. The manifest of a proposal with
    something missing is no valid one yet.

    Raises InputError for a model that no manifest can describe, and for options together with a manifest that is kept;
    EngineError if ONNX Runtime does not load the model.
    """
    with naming(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    target = folder / model.name
    if target.resolve() == model.resolve():
        raise InputError(f"{folder}: is the model's own folder; choose another one for the copy")
    if options != WrapOptions() and _is_valid(manifest_path(target)):
        raise InputError(f"{manifest_path(target)}: already exists and is kept; delete it to use options")
    proposal = Proposal()
    if copied(model, target):
        proposal.guesses.append("the batch was variable: the copy has a batch of 1")
    if manifest_path(target).exists():
        if guess := _kept(target):
            proposal.guesses.append(guess)
            return target, proposal
        old = manifest_path(target).with_suffix(".old")
        manifest_path(target).replace(old)
        proposal.guesses.append(f"the existing manifest is not valid; it was renamed to {old.name}")
    engine = OnnxEngine(target, threads=1)
    try:
        memory = _memory(engine, proposal)
        _inputs(engine, memory, options, proposal)
        _action(target, engine, memory, options, proposal)
    finally:
        engine.close()
    head: dict[str, Any] = {
        "contract_version": OWN_VERSION,
        "sha256": sha256_of(target),
        "policy": options.name or model.stem,
        "training_delay_ticks": 3,
        "control_hz": 30.0,
        "decision_hz": 3.0,
        "weights": "float16" if "float16" in weight_types(target) else "float32",
    }
    proposal.guesses.append("decisions: 3 per second, each applied 3 ticks of 1/30 s after its sensing")
    table = head | proposal.table
    if proposal.missing:
        manifest_path(target).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    else:
        save_manifest(target, _valid(target, table))
    return target, proposal


def _is_valid(manifest: Path) -> bool:
    try:
        read_manifest(manifest)
    except ConfigError:
        return False
    return True


def _valid(model: Path, table: Mapping[str, Any]) -> OwnManifest:
    """Return the proposed manifest. Raises InputError, and leaves no copy of the model, for options that do not fit."""
    try:
        return OwnManifest.model_validate(table)
    except ValidationError as error:
        model.unlink()
        raise InputError(validation_lines("the proposal, by the options", error)) from error


def _kept(model: Path) -> str:
    """Put a model's digest into its manifest, which keeps all else; return that in words, "" if it is not valid."""
    if not _is_valid(manifest_path(model)):
        return ""
    manifest = read_manifest(manifest_path(model))
    save_manifest(model, manifest.model_copy(update={"sha256": sha256_of(model)}))
    return f"kept {manifest_path(model).name}, with the new digest; delete it for a new proposal"


def _memory(engine: OnnxEngine, proposal: Proposal) -> dict[str, str]:
    """Return output by input of each recurrent state: equal shapes, and the name of a state."""
    left = dict(engine.outputs)
    pairs: dict[str, str] = {}
    for name, kind in engine.inputs.items():
        same = [output for output, other in left.items() if other == kind]
        if same and STATE.search(name):
            (output, *_) = difflib.get_close_matches(name, same, 1, 0.0)
            pairs[name] = output
            del left[output]
            proposal.guesses.append(f"input {name}: recurrent state, zeros at first, then output {output}")
    proposal.table["memory"] = [
        {"input": name, "output": output, "shape": list(engine.inputs[name].shape)} for name, output in pairs.items()
    ]
    return pairs


def _inputs(engine: OnnxEngine, memory: Mapping[str, str], options: WrapOptions, proposal: Proposal) -> None:
    proposal.table["inputs"] = []
    for name, kind in engine.inputs.items():
        if name in memory:
            continue
        feed = _guessed(name, kind, options)
        if feed is None:
            size = f"{math.prod(kind.shape)} values"
            proposal.missing.append(f"input {name}: {kind}, {size}: unknown by its name; write its feed there")
            feed = {"feed": UNKNOWN}
        made = {"name": name, "shape": list(kind.shape), "dtype": kind.dtype, **feed}
        proposal.table["inputs"].append(made)
        reported = feed | ({"sectors": math.prod(kind.shape) // feed["history"]} if feed["feed"] == "scan" else {})
        details = ", ".join(f"{key} {value}" for key, value in reported.items() if key != "feed")
        if feed["feed"] == UNKNOWN:
            continue
        proposal.guesses.append(f"input {name}: {feed['feed']}{f', {details}' if details else ''}")


def _guessed(name: str, kind: TensorType, options: WrapOptions) -> dict[str, Any] | None:
    """Return the settings of an input's feed, None without a guess."""
    feed = next((one for one, pattern in KINDS if pattern.search(name)), None)
    shape, values = kind.shape, math.prod(kind.shape)
    if len(shape) >= 4 and 3 in (shape[-3], shape[-1]):
        return {"feed": "color", "layout": "chw" if shape[-3] == 3 else "hwc", "history": values // (3 * _area(shape))}
    if feed == "scan":
        usual = (-90.0, 90.0) if values // _rows(shape) < FEW_SECTORS else (-180.0, 180.0)
        fov_deg, history = list(options.fov_deg or usual), _rows(shape)
        return {
            "feed": "scan", "fov_deg": fov_deg, "unit": "m", "max_range_m": options.max_range_m, "history": history,
        }  # fmt: skip
    if feed is not None and values in VECTORS.get(feed, {}):
        frame = {"frame": "robot"} if feed == "goal" else {}
        fields = ("x", "y") if feed == "goal" and values == 2 and PLANE.search(name) else VECTORS[feed][values]
        return {"feed": feed, **frame, "fields": list(fields)}
    return None


def _rows(shape: tuple[int, ...]) -> int:
    """Return how many scans a tensor is guessed to hold: one a row, if it has few and longer rows."""
    return shape[-2] if len(shape) > 1 and shape[-2] <= MOST_SCANS and shape[-2] < shape[-1] else 1


def _area(shape: tuple[int, ...]) -> int:
    return math.prod(shape[-2:]) if shape[-3] == 3 else math.prod(shape[-3:-1])


SQUASHED = {"Tanh": "unit", "Sigmoid": "fraction"}
"""Squash by the last operation of the model."""
STOP_WITHIN_M = 0.15
"""Below the mission's tolerance of a goal."""
RANGES = ((0.0, 1.0), (-1.0, 1.0))


DRAWN = (
    "is drawn at random ({drawn}), so the robot's decisions vary for the same input; export the deterministic action"
)


def _action(
    model: Path, engine: OnnxEngine, memory: Mapping[str, str], options: WrapOptions, proposal: Proposal
) -> None:
    outputs = {name: kind for name, kind in engine.outputs.items() if name not in memory.values()}
    if not outputs:
        raise InputError(f"{model}: it has no output except its recurrent states")
    proto = onnx.load(model)
    drawn = random_nodes(proto, memory.values())
    steady = {name: kind for name, kind in outputs.items() if not random_nodes(proto, [name])}
    if drawn or not steady:
        nodes = ", ".join(drawn or random_nodes(proto, outputs))
        model.unlink()
        raise InputError(f"{model}: output {', '.join(outputs)}: {DRAWN.format(drawn=nodes)}")
    outputs = {name: kind for name, kind in steady.items() if not is_index(proto, name, kind)} or steady
    output = next((name for name in outputs if OUTPUT.search(name)), next(iter(outputs)))
    values = math.prod(outputs[output].shape)
    action: dict[str, Any] = {"output": output}
    if is_index(proto, output, outputs[output]):
        chosen = index_of(proto, output, outputs[output])
        proposal.missing.append(f"output {output}: is an index; export the values{chosen}")
        proposal.table["action"] = action | {"kind": "table", "twists": [list(twist) for twist in options.twists]}
        return
    if options.twists:
        if len(options.twists) != values:
            proposal.missing.append(f"output {output}: {values} values, --twist was given {len(options.twists)} times")
        action |= {"kind": "table", "twists": [list(twist) for twist in options.twists]}
        text = f"the largest of its {values} values chooses a row of the table"
    elif values in (2, 4):
        last = next((node.op_type for node in proto.graph.node if output in node.output), "")
        squash = SQUASHED.get(last, "none")
        v_mps, w_radps = options.v_mps or RANGES[0], options.w_radps or RANGES[1]
        action |= {"kind": "continuous", "v_mps": list(v_mps), "w_radps": list(w_radps), "squash": squash}
        action |= {"distribution": "gaussian"} if values == 4 else {}
        text = f"v {v_mps[0]:g} to {v_mps[1]:g} m/s, w {w_radps[0]:g} to {w_radps[1]:g} rad/s, squash {squash}"
        text += ", the two means of a Gaussian first" if values == 4 else ""
        if any(feed["feed"] == "goal" for feed in proposal.table["inputs"]):
            action["stop_within_m"] = STOP_WITHIN_M
            proposal.guesses.append(
                f"stop_within_m {STOP_WITHIN_M:g}: the runtime stops there; drop it if the model does"
            )
    elif values == len(ACTIONS):
        action |= {"kind": "table", "twists": [[one.v_mps, one.w_radps] for one in ACTIONS]}
        text = "the paper's 28 actions"
    else:
        proposal.missing.append(
            f"output {output}: {values} values: neither v and w nor the paper's 28 actions; define the table, one "
            f"--twist V,W for each value"
        )
        proposal.table["action"] = action | {"kind": "table", "twists": []}
        return
    proposal.table["action"] = action
    proposal.guesses.append(f"output {output}: {text}")


# ---- The check


@dataclass(frozen=True)
class Checked:
    """Lines of a check. wrong: what does not fit; fed: how each tensor is fed; notes: what the robot changes."""

    wrong: tuple[str, ...]
    fed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def validate(model: Path, config: Config) -> Checked:
    """Return all that does not fit between a model, its manifest and a robot."""
    try:
        manifest = load_manifest(model)
    except ConfigError as error:
        file = f"{manifest_path(model)}: "
        return Checked(tuple(file + part for part in str(error).removeprefix(file).split("; ")))
    wrong: list[str] = []
    fed = list(_fed(manifest))
    try:
        engine = OnnxEngine(model, threads=1)
    except EngineError as error:
        return Checked((str(error),), tuple(fed))
    with contextlib.closing(engine):
        wrong += [f"{model}: {line}" for line in misfits(manifest, engine.inputs, engine.outputs)]
        action = manifest.action.output
        proto, kind = onnx.load(model), engine.outputs.get(action)
        drawn = random_nodes(proto, [action, *(entry.output for entry in manifest.memory)])
        wrong += [f"{model}: output {action}: {DRAWN.format(drawn=', '.join(drawn))}"] if drawn else []
        if not wrong and kind is not None and is_index(proto, action, kind):
            wrong.append(f"{model}: output {action}: is an index; export the values{index_of(proto, action, kind)}")
        try:
            fed += [] if wrong else [_tried(engine, manifest)]
        except OnboardError as error:
            wrong.append(f"{model}: {error}")
    try:
        check_timing(config, manifest)
    except ConfigError as error:
        wrong.append(f"{manifest_path(model)}: {str(error).removeprefix(f'{config.policy.model}: ')}")
    limits = config.limits
    clipped = beyond(manifest.action, (limits.v_min_mps, limits.v_max_mps), limits.w_max_radps)
    return Checked(tuple(wrong), tuple(fed), (f"clipped to the robot's limits: {clipped}",) if clipped else ())


def _fed(manifest: ModelManifest) -> Iterator[str]:
    for feed in manifest.feeds:
        history = f", the newest {feed.history} decisions" if feed.history > 1 else ""
        yield f"input {feed.name} {feed.type}: {_words(feed)}{history}"
    for entry in manifest.memory:
        kind = TensorType(entry.shape, "float32")
        yield f"input {entry.input} {kind}: zeros, then output {entry.output} of the decision before"
    action = manifest.action
    if isinstance(action, ContinuousAction):
        (v, v_most), (w, w_most) = action.v_mps, action.w_radps
        text = f"v {v:g} to {v_most:g} m/s, w {w:g} to {w_most:g} rad/s, squash {action.squash}"
        text += f", mode of a {action.distribution} distribution" if action.distribution else ""
    else:
        text = f"the largest of {len(action.table)} values chooses a row of the table"
    yield f"output {action.output}: {text}"


def _words(feed: OneFeed) -> str:
    """Return what the runtime puts into a feed."""
    if isinstance(feed, ScanFeed):
        first, last = feed.sectors_deg[0], feed.sectors_deg[-1]
        unit = "as fractions of" if feed.unit == "fraction" else "in m up to"
        where = f"from {first[0]:g} to {last[1]:g} deg"
        if feed.bearings_deg is not None:
            where = f"at {', '.join(f'{angle:g}' for angle in feed.bearings_deg)} deg, each {feed.width_deg:g} deg wide"
        return f"scan, {len(feed.sectors_deg)} sectors {where}, {unit} {feed.max_range_m:g} m"
    if isinstance(feed, ColorFeed):
        return f"colour image, {feed.size[0]} x {feed.size[1]}, {feed.layout}"
    if isinstance(feed, GoalFeed):
        return f"goal in the {feed.frame} frame: {', '.join(feed.fields)}"
    if isinstance(feed, PartsFeed):
        return " + ".join(map(_words, feed.parts))
    return f"{feed.feed.replace('_', ' ')}: {', '.join(feed.fields)}"


def _tried(engine: OnnxEngine, manifest: ModelManifest) -> str:
    """Decide once, in free space, a metre before the goal. Raises OnboardError."""
    policy = NetworkPolicy(engine, manifest)
    decision, _ = policy.decide(blank_observation(), policy.initial_memory())
    twist = twist_of(decision)
    return f"in free space, 1 m before the goal, it decides v {twist.v_mps:.2f} m/s, w {twist.w_radps:.2f} rad/s"
