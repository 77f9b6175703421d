"""The policy of a replay: the recorded policy, or another policy for comparison."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
from pathlib import Path

from hil.recordings.recording import Session
from hil.replay.tolerances import ENGINE
from onboard.assembly.policies import WITHOUT_MODEL, policy_maker
from onboard.config.config import Config
from onboard.config.plant_model import Plant, load_plant
from onboard.config.pretrained import MODEL_SUFFIX, model_path
from onboard.perception.building import occupancy_grid
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.manifest import load_manifest
from onboard.safety.keepout_zones import MapZones, decode
from onboard.values.errors import ConfigError, InputError
from onboard.values.interfaces import Policy

Key = tuple[str, str, str]


class Policies:
    """Loads a policy once for consecutive recordings of this policy.

    given: policy of every session instead; closed with the others
    place: file or folder of the models on this machine; None for the recorded path
    """

    def __init__(self, given: Policy | None = None, place: Path | None = None) -> None:
        self._given, self._place = given, place
        self._held: dict[Key, Policy] = {}

    def that_drove(self, source: str, session: Session, plant: Plant, force: bool) -> Policy:
        """Return the configured policy. Raises InputError if its model is missing or another model."""
        if self._given is not None:
            return self._given
        model = session.config.policy.model
        key = self._key(session, model)
        if key not in self._held:
            if model not in WITHOUT_MODEL:
                model = str(_model_here(source, session, self._place, force))
            self._held[key] = _made(session.config, model, plant, recorded_building(source, session))
        return self._held[key]

    def is_that_drove(self, session: Session) -> bool:
        """Return whether the recorded policy decides."""
        if self._given is not None or session.config.policy.model in WITHOUT_MODEL:
            return True
        place = model_path(session.config.policy.model) if self._place is None else self._place
        return place.is_dir() or load_manifest(place).sha256 == _recorded_sha256(session)

    def another(self, session: Session, model: str, plant: Plant) -> Policy:
        """Return the policy of a model's path or name under the session's configuration. Raises OnboardError."""
        if self._given is not None:
            return self._given
        key = self._key(session, model)
        if key not in self._held:
            section = session.config.policy.driven_by(model)
            config = session.config.model_copy(update={"policy": section})
            self._held[key] = _made(config, section.model, plant, recorded_building("recording", session))
        return self._held[key]

    def tidy(self) -> None:
        """Close all policies but the last one loaded."""
        for key in list(self._held)[:-1]:
            self._held.pop(key).close()

    def close(self) -> None:
        """Let go of all of them."""
        with contextlib.ExitStack() as stack:
            for policy in (*self._held.values(), *filter(None, [self._given])):
                stack.callback(policy.close)
            self._held.clear()

    def _key(self, session: Session, model: str) -> Key:
        files = "".join(session.record.get(name, "") for name in ("plant", "map_sha256", "model_sha256"))
        return session.config.model_dump_json(), files, model


def recorded_plant(source: str | Path, session: Session) -> Plant:
    """Return the recorded plant. Raises InputError."""
    if "plant" not in session.record:
        raise InputError(f"{source}: not a recording of onboard: its session has no plant")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plant.toml"
        file.write_text(session.record["plant"], encoding="utf-8")
        try:
            return load_plant(file)
        except ConfigError as error:
            why = str(error).replace(f"{file}: ", "")
            raise InputError(textwrap.indent(why, f"{source}: recorded plant: ")) from error


def recorded_zones(source: str | Path, session: Session) -> MapZones | None:
    """Return the recorded zones of the map, None without zones. Raises InputError."""
    if "zones" not in session.record:
        return None
    config = session.config
    try:
        return decode(session.record["zones"], config.zones, config.limits.v_max_mps, config.robot.footprint)
    except InputError as error:
        raise InputError(f"{source}: recorded zones: {error}") from error


def recorded_building(source: str | Path, session: Session) -> OccupancyGrid | None:
    """Return the recorded map of the building, None without one. Raises InputError."""
    if "map" not in session.record:
        return None
    try:
        building = occupancy_grid.decode(session.record["map"])
    except InputError as error:
        raise InputError(f"{source}: recorded map: {error}") from error
    if building.digest != session.record.get("map_sha256"):
        raise InputError(f"{source}: recorded map: its digest is not the recorded one")
    return building


def _model_here(source: str, session: Session, place: Path | None, force: bool) -> Path:
    """Return the file of the recorded model. force: accept another model."""
    if place is not None and place.is_dir():
        return _found_in(source, session, place)
    recorded = _recorded_sha256(session)
    try:
        model = model_path(session.config.policy.model) if place is None else place.absolute()
        here = load_manifest(model).sha256
    except (ConfigError, InputError) as error:
        hint = "; name its place with --model" if place is None else ""
        raise InputError(f"{source}: the recorded model is missing: {error}{hint}") from error
    if here != recorded and not force:
        raise InputError(
            f"{source}: {model} is not the recorded model (sha256 {here[:12]}, recorded "
            f"{recorded[:12]}); --force continues"
        )
    return model


def _found_in(source: str, session: Session, folder: Path) -> Path:
    recorded = _recorded_sha256(session)
    models = sorted(folder.absolute().rglob(f"*{MODEL_SUFFIX}"))
    for model in models:
        with contextlib.suppress(ConfigError):
            if load_manifest(model).sha256 == recorded:
                return model
    drove = f"was driven with {Path(session.config.policy.model).name} (sha256 {recorded[:12]})"
    raise InputError(f"{source}: {drove}, which is not among the {len(models)} models in {folder}")


def _recorded_sha256(session: Session) -> str:
    return session.record.get("model_sha256", "")


def _made(config: Config, model: str, plant: Plant, building: OccupancyGrid | None) -> Policy:
    """Return the configured policy on a desktop's engine."""
    section = config.policy.model_copy(update={"engine": ENGINE, "model": model})
    return policy_maker(config.model_copy(update={"policy": section}), plant, building)()
