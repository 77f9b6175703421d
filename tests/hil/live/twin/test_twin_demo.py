"""The picture of both paths, the figures of round trips, and the two long commands."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from hil.__main__ import app
from hil.live.child_process import Child
from hil.live.twin.latency import WARM_UP, RoundTrips, figures, summary
from onboard.values.errors import OnboardError
from tests.rigs.machine.processes import done
from tests.rigs.network.loopback import free_domain


def test_figures_of_round_trips() -> None:
    took = np.array([10.0] * 97 + [150.0, 250.0, inf])
    found = figures(took)
    assert (found["count"], found["lost"], found["above_200_ms"]) == (100, 1, 2)
    assert found["share_below_100_ms"] == 0.97
    assert found["mean_ms"] == pytest.approx((970 + 400) / 99, abs=0.001)
    assert found["worst_ms"] == 250.0
    more = {"simulator_ms": {"p50": 7.0}, "load_average": 0.5, "cores": 2, "paper_4": found | {"mean_ms": 71.75}}
    text = summary(found | more)
    assert "100 round trips, 1 lost" in text
    assert "median 10.00 ms, of these 7.00 ms in the simulator" in text


def test_a_warm_up_names_the_message_that_does_not_come(capsys: pytest.CaptureFixture[str]) -> None:
    """On a busy machine the warm-up once waited for 30 complete round trips in a row, and said nothing of which."""

    class Trips(RoundTrips):
        def __init__(self) -> None:
            self.missing, self.tried = "", 0

        def one(self) -> float:
            self.tried += 1
            self.missing = "color/image" if self.tried % 3 else ""
            clock_s[0] += 0.4
            return inf if self.missing else 50.0

    clock_s = [0.0]
    trips = Trips()
    trips.wait_until_received(cast(Child, SimpleNamespace(check=lambda: None)), lambda: clock_s[0])
    assert trips.tried == 3 * WARM_UP
    lines = capsys.readouterr().err.splitlines()
    assert "of 30 round trips; not received within 0.4 s of its pose: color/image" in lines[0]
    assert len(lines) == 1


#   command                                   what its line names
MISTAKES = [
    (["twin", "--map", "nowhere"], "nowhere"),
    (["twin", "--areas", "none.toml"], "none.toml"),
    (["twin-demo", "--episode", "999"], "--episode 999"),
    (["twin-demo", "--corridor", "--map", "gdc1"], "remove --map, --episode, --pedestrians"),
    (["twin", "--map", "corridor", "--episode", "1"], "remove --episode, --areas, --pedestrians"),
    (["twin-demo", "--policy", "nowhere.onnx"], "nowhere.onnx.manifest.json"),
    (["guard", "--config", "none.toml"], "none.toml"),
    (["twin-robot", "--room", "none.json"], "none.json"),
    (["twin-latency", "--config", "none.toml"], "none.toml"),
]


@pytest.mark.parametrize(("arguments", "named"), MISTAKES, ids=[" ".join(row[0]) for row in MISTAKES])
def test_bad_input_is_one_line(arguments: list[str], named: str) -> None:
    with pytest.raises(OnboardError, match=named) as caught:
        app(arguments, standalone_mode=False)
    assert "\n" not in str(caught.value)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_robot_in_a_small_room_drives_its_twin_to_a_goal(tmp_path: Path) -> None:
    command = done("hil", "twin-demo", "--json", "-", folder=tmp_path, domain=free_domain())
    result = json.loads(command.out)
    assert command.process.returncode == 0, result
    assert (result["reached"], result["virtual_contacts"], result["real_contacts"]) == (True, 0, 0)
    assert result["legs"] >= 3
    assert result["twin_path_m"] > 8.0
    assert Path(result["picture"]).stat().st_size > 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_round_trips_of_the_command(tmp_path: Path) -> None:
    paper = ("twin-latency", "--paper", "--count", "200", "--json", "-")
    command = done("hil", *paper, folder=tmp_path, domain=free_domain())
    assert command.process.returncode == 0, command.err
    result = json.loads(command.out)
    assert result["count"] == 200
    assert result["lost"] <= 10
    assert result["messages"] == ["scan", "color/image", "points", "collision"]
    assert 0.0 < result["simulator_ms"]["p50"] < result["p50_ms"]
    assert (tmp_path / "out" / "twin" / "twin-latency.svg").stat().st_size > 0
