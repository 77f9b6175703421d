"""Who decides in a replay: the policy that drove, from what the recording says of it, or another one that is asked."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from hil.recording import Session
from onboard.assembly import REACTIVE, policy_maker
from onboard.config import Config
from onboard.errors import ConfigError, InputError
from onboard.interfaces import Policy
from onboard.manifest import load_manifest
from onboard.motion import Plant, load_plant
from onboard.pretrained import model_path

Key = tuple[str, str, str]


class Policies:
    """Loads a policy once for all the recordings that it drove, one after the other.

    given: decides in every session instead; closed with the others
    """

    def __init__(self, given: Policy | None = None) -> None:
        self._given = given
        self._held: dict[Key, Policy] = {}

    def that_drove(self, source: str, session: Session, plant: Plant, force: bool) -> Policy:
        """Return the policy that the configuration names. Raises InputError where it is not here, or another."""
        if self._given is not None:
            return self._given
        model = session.config.policy.model
        key = self._key(session, model)
        if key not in self._held:
            if model != REACTIVE:
                _check_model(source, session, model, force)
            self._held[key] = _made(session.config, model, plant)
        return self._held[key]

    def another(self, session: Session, model: str, plant: Plant) -> Policy:
        """Return the policy of a model's path or name, as the session's configuration has it. Raises OnboardError."""
        if self._given is not None:
            return self._given
        key = self._key(session, model)
        if key not in self._held:
            self._held[key] = _made(session.config, model, plant)
        return self._held[key]

    def tidy(self) -> None:
        """Let go of all but the one that was loaded last."""
        for key in list(self._held)[:-1]:
            self._held.pop(key).close()

    def close(self) -> None:
        """Let go of all of them."""
        with contextlib.ExitStack() as stack:
            for policy in (*self._held.values(), *filter(None, [self._given])):
                stack.callback(policy.close)
            self._held.clear()

    def _key(self, session: Session, model: str) -> Key:
        return session.config.model_dump_json(), session.record.get("plant", ""), model


def recorded_plant(source: str | Path, session: Session) -> Plant:
    """Return the base as it was configured. Raises InputError."""
    if "plant" not in session.record:
        raise InputError(f"{source}: not a recording of onboard: its session has no plant")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plant.toml"
        file.write_text(session.record["plant"], encoding="utf-8")
        try:
            return load_plant(file)
        except ConfigError as error:
            raise InputError(f"{source}: recorded plant: {str(error).replace(str(file), 'plant')}") from error


def _check_model(source: str, session: Session, name: str, force: bool) -> None:
    recorded = session.record.get("model_sha256", "")
    model = model_path(name)
    try:
        here = load_manifest(model).sha256
    except ConfigError as error:
        raise InputError(f"{source}: was driven by a model that is not here: {error}") from error
    if here != recorded and not force:
        raise InputError(
            f"{source}: {model} is another model than the one that drove (sha256 {here[:12]}, recorded "
            f"{recorded[:12]}); --force goes on"
        )


def _made(config: Config, model: str, plant: Plant) -> Policy:
    """Return a policy as the configuration has it, on a desktop's engine."""
    section = config.policy.model_copy(update={"engine": "onnxruntime", "model": model})
    return policy_maker(config.model_copy(update={"policy": section}), plant)()
