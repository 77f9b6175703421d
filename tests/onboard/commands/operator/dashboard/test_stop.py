"""The page's stop as the runtime hears it: beside a robot's own e-stop, over releases, and while two people press."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.commands.operator.dashboard.stop import MOST_OTHERS, MOST_TEXT, Stop
from onboard.config.config import Config, DdsSection
from onboard.drivers.dds.latched_inputs import Alarm
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_types import Bool, String
from onboard.values.errors import DriverError
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

WITHIN_S = 1.0


class Robot:
    """The runtime's e-stop, and the robot's own button, which repeats its state."""

    def __init__(self, pressed: bool, required: bool) -> None:
        self.config = Config(dds=DdsSection(domain=free_domain(), e_stop_pressed=pressed))
        self.wire, self._wire, self._button = (Wire(self.config.dds) for _ in range(3))
        within_s = WITHIN_S if required else None
        self._alarm = Alarm(self._wire, "e_stop", unknown_is_true=True, pressed=pressed, required_within_s=within_s)
        self.heard: bool | None = None
        self.history: list[bool | None] = []
        self.button: bool | None = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        writer = self._button.writer("e_stop")
        while not self._ended.wait(0.02):
            if self.button is None:
                self._button.close()  # it leaves
            else:
                writer.write(Bool(self.button == self.config.dds.e_stop_pressed))
            self.heard = self._alarm.take(time.monotonic_ns())
            self.history.append(self.heard)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self.wire.close()
        self._wire.close()
        self._button.close()


@contextlib.contextmanager
def robot_and_stop(tmp_path: Path, pressed: bool = True, required: bool = True) -> Iterator[tuple[Robot, Stop]]:
    with contextlib.closing(Robot(pressed, required)) as robot:
        until(lambda: robot.heard is False)
        with contextlib.closing(Stop(robot.config, robot.wire, tmp_path / ".stop")) as stop:
            yield robot, stop


@pytest.mark.parametrize("pressed", [True, False])
def test_it_presses_and_releases_beside_the_robots_own_button(tmp_path: Path, pressed: bool) -> None:
    with robot_and_stop(tmp_path, pressed) as (robot, stop):
        for _ in range(2):
            stop.press()
            until(lambda: robot.heard is True)
            stop.release(stop.presses)
            until(lambda: robot.heard is False)
        before = len(robot.history)
        until(lambda: len(robot.history) > before + 75)
        assert set(robot.history[before:]) == {False}, "its silence is no lost sender"


def test_it_does_not_release_the_robots_own_button(tmp_path: Path) -> None:
    with robot_and_stop(tmp_path) as (robot, stop):
        stop.press()
        robot.button = True
        until(lambda: robot.heard is True)
        stop.release(stop.presses)
        before = len(robot.history)
        until(lambda: len(robot.history) > before + 50)
        assert set(robot.history[before:]) == {True}


def test_it_does_not_stand_in_for_the_robots_own_button(tmp_path: Path) -> None:
    with robot_and_stop(tmp_path) as (robot, stop):
        stop.press()
        until(lambda: robot.heard is True)
        stop.release(stop.presses)
        until(lambda: robot.heard is False)
        robot.button = None
        until(lambda: robot.heard is True, 10.0 * WITHIN_S)


def test_a_press_does_not_wait_for_a_release_and_wins(tmp_path: Path) -> None:
    with robot_and_stop(tmp_path) as (robot, stop):
        stop.press()
        until(lambda: robot.heard is True)
        waiting, go_on = threading.Event(), threading.Event()

        def acknowledged(timeout_s: float) -> bool:
            waiting.set()
            return go_on.wait(10.0)

        stop._writer.wait_for_acks = acknowledged  # type: ignore[method-assign]
        releasing = threading.Thread(target=stop.release, args=(stop.presses,))
        releasing.start()
        assert waiting.wait(10.0)
        stop.press()
        until(lambda: robot.heard is True)
        go_on.set()
        releasing.join()
        before = len(robot.history)
        until(lambda: len(robot.history) > before + 25)
        assert set(robot.history[before:]) == {True}
        assert stop.pressed
        assert (tmp_path / ".stop").exists()


def test_a_folder_that_cannot_be_written_does_not_hinder_it(tmp_path: Path) -> None:
    with contextlib.closing(Robot(True, False)) as robot:
        stop = Stop(robot.config, robot.wire, tmp_path / "nowhere" / ".stop")
        with contextlib.closing(stop):
            stop.press()
            until(lambda: robot.heard is True)
            stop.release(stop.presses)
            until(lambda: robot.heard is False)


def test_a_beat_that_fails_ends_no_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with robot_and_stop(tmp_path) as (robot, stop):
        failed = threading.Event()

        def fail(_text: str) -> None:
            failed.set()
            raise DriverError("the link is gone")

        monkeypatch.setattr(stop, "_hear", fail)
        stop._reports.write(String("anything"))
        until(failed.is_set)
        stop.press()
        until(lambda: robot.heard is True)
        seen = len(robot.history)
        time.sleep(2.0 * WITHIN_S)  # longer than one message counts
        assert set(robot.history[seen:]) == {True}


def test_an_older_request_does_not_release_a_newer_press(tmp_path: Path) -> None:
    with robot_and_stop(tmp_path) as (robot, stop):
        stop.press()
        stop.press()
        stop._hear(f"released {stop._name} 1")
        assert stop.pressed
        stop._hear(f"released {stop._name} 2")
        assert not stop.pressed
        until(lambda: robot.heard is False)


def test_a_dashboard_that_starts_learns_that_its_stop_was_released_meanwhile(tmp_path: Path) -> None:
    with robot_and_stop(tmp_path) as (robot, other), contextlib.closing(Wire(robot.config.dds)) as wire:
        (tmp_path / "own").mkdir()
        mark = tmp_path / "own" / ".stop"
        ended = Stop(robot.config, wire, mark)
        ended.press("10:22:31 from 10.0.0.7")
        until(lambda: other.by == "10:22:31 from 10.0.0.7")
        ended.close()
        assert other.release(other.presses)
        until(lambda: robot.heard is False)
        assert mark.exists()
        before = len(robot.history)
        with contextlib.closing(Stop(robot.config, wire, mark)) as again:
            assert (again.pressed, mark.exists()) == (False, False)
        assert set(robot.history[before:]) == {False}


JUNK = [
    "",
    "pressed",
    "pressed a",
    "pressed a -1 x",
    "pressed a x 1",
    "released a",
    "released a b",
    "pressed  ",
    "x" * 9999,
]


def test_reports_of_others_are_bounded_and_junk_is_left_out(tmp_path: Path) -> None:
    with robot_and_stop(tmp_path) as (_, stop):
        for text in JUNK:
            stop._hear(text)
        assert (stop.pressed, stop.presses) == (False, 0)
        for number in range(3 * MOST_OTHERS):
            stop._hear(f"pressed {number} 1 {'y' * 9999}")
        assert stop.presses == 3 * MOST_OTHERS
        assert len(stop._others) == len(stop._known) == MOST_OTHERS
        assert len(stop.by) <= MOST_TEXT
