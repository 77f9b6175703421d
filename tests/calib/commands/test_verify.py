"""Sessions of the whole runtime: honest ones are ok, and a planted change is named."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from calib.__main__ import app
from onboard.assembly.robot import session_of
from onboard.config.config import Config, RecordSection
from onboard.config.toml_text import as_toml
from onboard.health.gatherer import Gatherer
from onboard.health.session import Session
from onboard.health.verdict import OK, RECALIBRATE, Check, Health
from onboard.recording.recorder import Recorder, RecordQueue
from onboard.recording.tick_writer import TickRecorder
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.clock import NS_PER_S
from onboard.values.messages import Observation
from tests.calib.wheels.sessions import CONFIG, drive, slower, tilted
from tests.rigs.runtime_bench import FORWARD, LEFT, MOUNTS, PLANT, Puppet

REPLAY = Path(__file__).parents[2] / "data" / "replay"


class Watch:
    """A listener that runs the checks in the tick's own thread."""

    def __init__(self) -> None:
        self.gatherer, self.session = Gatherer(CONFIG), Session(CONFIG, MOUNTS, PLANT)

    def tick(self, record: TickRecord, counters: object) -> None:
        part = self.gatherer.take(record)
        if part is not None:
            self.session.take(part)

    def health(self) -> Health:
        self.session.take(self.gatherer.rest())
        return self.session.health()


def lived(seed: int, seconds: float = 90.0, **true: Any) -> Health:
    watch = Watch()
    with unlogged():
        drive((watch,), seed, seconds, **true)
    return watch.health()


def bad(health: Health) -> set[str]:
    return {check.name for check in health.checks if check.verdict == RECALIBRATE}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_an_honest_session_is_ok(seed: int) -> None:
    health = lived(seed)
    assert health.verdict == OK, health.message
    assert {"wheels speed", "linear response", "angular response", "front tilt"} <= {
        check.name for check in health.checks
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("true", "names"),
    [
        ({"mounts": tilted("front", "y", 3.0)}, {"front tilt"}),
        ({"plant": slower(0.7)}, {"linear response", "angular response"}),
        ({"speed": 1.03}, {"wheels speed"}),
    ],
    ids=["tilted camera", "slower base", "larger wheels"],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_planted_change_is_named(true: dict[str, Any], names: set[str], seed: int) -> None:
    assert bad(lived(seed, 150.0, **true)) == names


@pytest.mark.parametrize(
    ("checks", "code", "verdict"),
    [
        ((), 3, "verdict: unknown: nothing compared"),
        ((Check("front tilt", "tilt_deg", 0.1, 0.1, 1.0, 2.0),), 0, "verdict: ok"),
        ((Check("front tilt", "tilt_deg", 1.5, 0.1, 1.0, 2.0),), 0, "verdict: watch: front tilt is off by +1.5"),
        ((Check("front tilt", "tilt_deg", 4.0, 0.1, 1.0, 2.0),), 1, "verdict: recalibrate"),
    ],
)
def test_each_verdict_has_its_exit_code(
    checks: tuple[Check, ...], code: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calib.commands.verify.assessed", lambda *_: Health(checks))
    done = CliRunner().invoke(app, ["verify", str(next(REPLAY.glob("*.mcap")))])
    assert (done.exit_code, verdict in done.output) == (code, True), done.output


def by_turns(observation: Observation) -> int:
    """Drive ahead and turn, a second each: it stays in the middle of its room and needs no planner."""
    return LEFT if observation.stamp_ns // NS_PER_S % 2 else FORWARD


def recorded(folder: Path, **true: Any) -> Path:
    """Return the recording of a short session."""
    section, queue = RecordSection(directory=folder), RecordQueue(100_000, 1e15)
    recorder = Recorder(section, "robot", session_of(CONFIG), wall_ns=NS_PER_S, now_ns=NS_PER_S, queue=queue)
    with contextlib.closing(recorder), unlogged():
        drive((Ticks(recorder),), 1, 25.0, depth_every=8, policy=Puppet(by_turns), **true)
    file = recorder.stats().file
    assert file is not None
    return file


class Ticks:
    def __init__(self, recorder: Recorder) -> None:
        self._ticks = TickRecorder(recorder, Config().dds, MOUNTS, 14.0)

    def tick(self, record: TickRecord, counters: object) -> None:
        assert self._ticks.record(record)


def test_the_command_reads_a_recording_and_exits_by_the_verdict(tmp_path: Path) -> None:
    file = recorded(tmp_path, mounts=tilted("rear", "y", 3.0), plant=slower(0.7))
    done = CliRunner().invoke(app, ["verify", str(file), "--json", "-"])
    verdict = json.loads(done.output)
    assert done.exit_code == 1
    assert verdict["verdict"] == RECALIBRATE
    assert verdict["checks"]["rear tilt"]["value"] == pytest.approx(3.0, abs=0.3)
    assert verdict["checks"]["front tilt"]["verdict"] == OK
    assert verdict["checks"]["linear response"]["value"] == pytest.approx(-0.3, abs=0.08)
    plant = tmp_path / "plant.toml"
    plant.write_text(as_toml(slower(0.7), ""))
    done = CliRunner().invoke(app, ["verify", str(file), "--plant", str(plant), "--json", "-"])
    again = json.loads(done.output)
    assert again["checks"]["linear response"]["verdict"] == OK
    missing = CliRunner().invoke(app, ["verify", str(tmp_path / "none.mcap")])
    assert "none.mcap" in str(missing.exception)
