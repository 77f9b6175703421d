"""A recording through the runtime once more: compared with itself, or judged by another policy."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path

from hil.quiet import unlogged
from hil.recording import Recording, open_recording
from hil.replay.compared import Compared
from hil.replay.opinion import Opinion
from hil.replay.placing import WHOLE, Missing, Span, placed, within
from hil.replay.player import Played, Player
from onboard.assembly import REACTIVE, policy_maker
from onboard.config import Config
from onboard.errors import ConfigError, InputError
from onboard.interfaces import Policy
from onboard.manifest import load_manifest
from onboard.motion import Plant, load_plant
from onboard.pretrained import model_path
from onboard.record import FORMAT
from onboard.robot import RobotState


def replay(path: Path, span: Span = WHOLE, *, force: bool = False, policy: Policy | None = None) -> Compared:
    """Play a recording with the policy that drove and compare every tick.

    force:  go on where the model is another one than the recording names
    policy: who decides, None for the one that is named
    Raises InputError, ConfigError or EngineError in one line.
    """
    with open_recording(path) as recording, unlogged():
        _check(recording)
        plant = recorded_plant(recording)
        found, missing, began_s = Compared(path, recording.session), Missing(), time.monotonic()
        with contextlib.closing(policy or _policy(recording, plant, force)) as deciding:
            for played, t_s in _played(recording, span, missing, plant, deciding, own=True):
                found.add(played, t_s)
        if found.ticks == 0:
            raise InputError(f"{path}: no tick of it can be played, so nothing was compared")
        found.skipped, found.gaps, found.took_s = missing.skipped, missing.gaps, time.monotonic() - began_s
        return found


def consult(path: Path, policy: str | Policy, span: Span = WHOLE) -> Opinion:
    """Ask another policy what it would have done. policy: also "reactive", a name that ships, or the path of a model.

    Raises InputError, ConfigError or EngineError in one line.
    """
    with open_recording(path) as recording, unlogged():
        _check(recording)
        plant = recorded_plant(recording)
        deciding = _made(recording.config, policy, plant) if isinstance(policy, str) else policy
        with contextlib.closing(deciding):
            opinion = Opinion(path, deciding.name)
            for played, t_s in _played(recording, span, Missing(), plant, deciding, own=False):
                opinion.add(played, t_s)
        if opinion.decisions == 0:
            raise InputError(f"{path}: no decision of it can be played, so nobody was asked")
        return opinion


def _played(
    recording: Recording, span: Span, missing: Missing, plant: Plant, policy: Policy, *, own: bool
) -> Iterator[tuple[Played, float]]:
    """Yield the ticks of a span played, with the time since the first of the recording [s].

    own: the policy is the one whose memory stands in the recording
    """
    player = Player(recording.config, recording.mounts, plant, policy)
    for tick in within(span, placed(recording, missing)):
        if tick.state is not None:
            player.begin(tick.state if own else without_memory(tick.state, policy))
        yield player.play(tick.tick), tick.t_s


def without_memory(state: RobotState, policy: Policy) -> RobotState:
    """Return a state in which a policy remembers nothing."""
    if state.pilot.memory is None:
        return state
    return changed(state, pilot=changed(state.pilot, memory=policy.initial_memory()))


def _check(recording: Recording) -> None:
    told = recording.session.get("format", "")
    if told != FORMAT:
        raise InputError(f"{recording.path}: recorded in format {told or 'unknown'}, this version replays {FORMAT}")
    if recording.left_out:
        raise InputError(f"{recording.path}: recorded with other messages on {', '.join(recording.left_out)}")


def recorded_plant(recording: Recording) -> Plant:
    """Return the base as it was configured. Raises InputError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plant.toml"
        file.write_text(recording.session["plant"], encoding="utf-8")
        try:
            return load_plant(file)
        except ConfigError as error:
            raise InputError(f"{recording.path}: recorded plant: {str(error).replace(str(file), 'plant')}") from error


def _policy(recording: Recording, plant: Plant, force: bool) -> Policy:
    """Return the policy that drove. Raises InputError where it is not here, or another."""
    config, path = recording.config, recording.path
    if config.policy.model != REACTIVE:
        model = model_path(config.policy.model)
        try:
            here = load_manifest(model).sha256
        except ConfigError as error:
            raise InputError(f"{path}: was driven by a model that is not here: {error}") from error
        if here != recording.session["model_sha256"] and not force:
            raise InputError(
                f"{path}: {model} is another model than the one that drove (sha256 {here[:12]}, recorded "
                f"{recording.session['model_sha256'][:12]}); --force goes on"
            )
    return _made(config, config.policy.model, plant)


def _made(config: Config, model: str, plant: Plant) -> Policy:
    """Return a policy as the configuration has it, on a desktop's engine."""
    section = config.policy.model_copy(update={"engine": "onnxruntime", "model": model})
    return policy_maker(config.model_copy(update={"policy": section}), plant)()
