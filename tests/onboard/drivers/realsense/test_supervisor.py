"""A camera's child is started, killed and started again; its frames ascend, are whole and fresh, or there are none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onboard.drivers.realsense.device import Source
from onboard.drivers.realsense.supervisor import RESET_FROM_ATTEMPT, CameraProcess, Patience
from tests.rigs.machine.waiting import alive, open_descriptors, until

FAKE = Path(__file__).parents[4] / "tests/rigs/devices/fake_camera.py"
LIVE = Source("front", serial="1", width=8, height=6)
RECORDED = Source("front", recording="walk.db3", width=8, height=6)
PATIENCE = Patience(stale_s=0.3, stall_s=2.0, backoff_s=(0.5, 10.0), start_s=20.0)
SECOND = 10**9

Make = Callable[..., CameraProcess]


@pytest.fixture
def make() -> Iterator[Make]:
    made = []

    def camera(mode: str, source: Source = LIVE) -> CameraProcess:
        made.append(CameraProcess(source, PATIENCE, [sys.executable, str(FAKE), mode]))
        return made[-1]

    yield camera
    for process in made:
        process.close()


def run_out(camera: CameraProcess, now_ns: int) -> None:
    """Wait until the camera, asked at `now_ns`, has learned that its child ended."""

    def ended() -> bool:
        camera.supervise(now_ns)
        return camera.pid is None

    until(ended)


def begin(camera: CameraProcess, now_ns: int = 0) -> int:
    """Start the child, wait until it spoke, and return its process id."""

    def spoke() -> bool:
        camera.supervise(now_ns)
        return camera.info != {}

    until(spoke)
    assert camera.pid is not None
    return camera.pid


def test_before_the_start_there_is_nothing(make: Make) -> None:
    camera = make("steady")
    assert camera.newest(0) is None
    assert (camera.reason, camera.frames, camera.pid) == ("not started", 0, None)


def test_frames_ascend_and_are_the_same_object_until_there_is_a_newer(make: Make) -> None:
    camera = make("steady")
    camera.supervise(0)
    assert camera.reason == "starting"
    numbers: list[int] = []
    while len(numbers) < 5:
        until(lambda: camera.frames > (numbers or [0])[-1])
        frame = camera.newest(0)
        assert frame is not None
        assert (frame.image == frame.number % 200 + 1).all()
        numbers.append(frame.number)
    assert numbers == sorted(set(numbers))


def test_a_frame_is_used_until_it_is_stale(make: Make) -> None:
    camera = make("once")
    camera.supervise(0)
    until(lambda: camera.frames == 1)
    frame = camera.newest(0)
    assert frame is not None
    assert camera.newest(frame.stamp_ns + 300_000_000) is frame
    assert camera.newest(frame.stamp_ns + 301_000_000) is None
    assert camera.reason == "no frame for 0.3 s"


def test_a_killed_child_is_blind_at_once_and_started_again_after_the_pause(make: Make) -> None:
    camera = make("steady")
    camera.supervise(0)
    until(lambda: camera.frames > 0)
    first, pid = camera.newest(0), camera.pid
    assert first is not None
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: camera.newest(0) is None)
    assert camera.reason == "process ended"
    run_out(camera, SECOND)
    assert camera.reason == "restarting, attempt 1: killed by signal 9"
    seen = camera.frames
    camera.supervise(SECOND + SECOND // 2 - 1)
    assert camera.pid is None
    camera.supervise(SECOND + SECOND // 2)
    assert camera.pid not in (None, pid)
    assert camera.restarts == 1
    until(lambda: camera.frames > seen)
    again = camera.newest(0)
    assert again is not None
    assert again.number > first.number


@pytest.mark.parametrize(("mode", "limit_s"), [("once", 2.0), ("hang", 20.0)])
def test_a_child_without_new_frames_is_killed(make: Make, mode: str, limit_s: float) -> None:
    camera = make(mode)
    pid = begin(camera)
    until(lambda: camera.frames == (mode == "once"))
    camera.supervise(0)
    camera.supervise(round(limit_s * SECOND))
    assert camera.pid == pid
    camera.supervise(round((limit_s + 0.1) * SECOND))
    assert camera.newest(0) is None
    assert camera.reason == f"no frame for {limit_s + 0.1:.1f} s, killed"
    run_out(camera, round((limit_s + 0.2) * SECOND))
    assert camera.reason == f"restarting, attempt 1: no frame for {limit_s + 0.1:.1f} s"


def test_a_stopped_process_is_killed_too(make: Make) -> None:
    camera = make("steady")
    pid = begin(camera)
    until(lambda: camera.frames > 0)
    os.kill(pid, signal.SIGSTOP)
    camera.supervise(0)
    camera.supervise(3 * SECOND)
    run_out(camera, 3 * SECOND)
    assert "no frame for 3.0 s" in camera.reason


def test_the_pause_doubles_up_to_the_longest(make: Make) -> None:
    camera = make("unplugged")
    step_ns = SECOND // 4
    now_ns, pauses_s = 0, []
    for attempt in range(1, 8):
        camera.supervise(now_ns)
        run_out(camera, now_ns)
        assert camera.reason == f"restarting, attempt {attempt}: not connected"
        ended_ns = now_ns
        while camera.restarts < attempt:
            now_ns += step_ns
            camera.supervise(now_ns)
        pauses_s.append((now_ns - ended_ns) / SECOND)
    assert pauses_s == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_crash_is_told_in_its_last_words(make: Make) -> None:
    camera = make("crash")
    camera.supervise(0)
    run_out(camera, 0)
    assert camera.reason == "restarting, attempt 1: killed by signal 6: terminate called"


def test_frames_for_long_make_the_next_attempt_the_first_again(make: Make) -> None:
    camera = make("steady")
    #  start [s], given frames for [s], attempt that the end then counts as
    for start_s, lasted_s, attempt in [(0, 1, 1), (20, 10, 2), (40, 11, 1), (60, 1, 2)]:
        camera.supervise(start_s * SECOND)
        for now_s in range(start_s, start_s + lasted_s + 1):
            seen = camera.frames
            until(lambda seen=seen: camera.frames > seen)
            camera.supervise(now_s * SECOND)
        assert camera.pid is not None
        os.kill(camera.pid, signal.SIGKILL)
        run_out(camera, (start_s + lasted_s) * SECOND)
        assert camera.reason.startswith(f"restarting, attempt {attempt}:")


#   mode     source    reason
FINAL = [
    ("fault", RECORDED, "recording cannot be played: recording is damaged"),
    ("ends", RECORDED, "recording ended after 3 frames"),
]


@pytest.mark.parametrize(("mode", "source", "reason"), FINAL, ids=[row[0] for row in FINAL])
def test_what_another_try_would_meet_again_is_final(make: Make, mode: str, source: Source, reason: str) -> None:
    camera = make(mode, source)
    camera.supervise(0)
    run_out(camera, 0)
    camera.supervise(1000 * SECOND)
    assert camera.pid is None
    assert camera.newest(0) is None
    assert (camera.reason, camera.restarts) == (reason, 0)


@pytest.mark.parametrize(("source", "asked"), [(LIVE, True), (RECORDED, False)], ids=["live", "recording"])
def test_a_live_camera_that_stays_away_is_reset(make: Make, source: Source, asked: bool) -> None:
    camera = make("unplugged", source)
    resets = []
    for attempt in range(RESET_FROM_ATTEMPT + 1):
        camera.supervise(attempt * 100 * SECOND)
        run_out(camera, attempt * 100 * SECOND)
        resets.append(camera.info["reset"])
    assert resets == [False] * RESET_FROM_ATTEMPT + [asked]


def test_a_program_that_cannot_be_started_is_tried_again() -> None:
    camera = CameraProcess(LIVE, PATIENCE, ["/nonexistent/program"])
    camera.supervise(0)
    camera.supervise(SECOND)
    assert camera.reason == "restarting, attempt 2: process cannot be started: No such file or directory"
    camera.close()


@pytest.mark.parametrize("mode", ["steady", "hang"])
def test_close_ends_the_child_and_leaves_nothing(make: Make, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onboard.drivers.realsense.supervisor.CLOSE_LIMIT_S", 0.2)
    before = open_descriptors()
    camera = make(mode)
    pid = begin(camera)
    frames = camera.frames
    camera.close()
    camera.close()
    assert not alive(pid)
    assert open_descriptors() == before
    assert (camera.newest(0), camera.reason, camera.frames >= frames) == (None, "closed", True)
    camera.supervise(0)
    assert camera.pid is None


def test_a_watched_camera_comes_back_by_itself() -> None:
    patience = Patience(stale_s=0.3, stall_s=20.0, backoff_s=(0.01, 0.01))
    camera = CameraProcess(LIVE, patience, [sys.executable, str(FAKE), "steady"])
    camera.watch(period_s=0.005)
    until(lambda: camera.frames > 0)
    assert camera.pid is not None
    os.kill(camera.pid, signal.SIGKILL)
    until(lambda: camera.restarts > 0)
    seen = camera.frames
    until(lambda: camera.frames > seen)
    camera.close()
    assert "watch-front" not in [thread.name for thread in threading.enumerate()]


PARENT = """
import sys, threading
from onboard.drivers.realsense.supervisor import CameraProcess, Patience
from onboard.drivers.realsense.device import Source
source = Source("front", serial="1", width=8, height=6)
camera = CameraProcess(source, Patience(0.3, 2.0, (0.5, 10.0)), [sys.executable, *sys.argv[1:]])
camera.supervise(0)
while not camera.info:
    camera.supervise(0)
    threading.Event().wait(0.005)
print(camera.pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("mode", ["steady", "hang"])
def test_a_child_dies_with_its_parent(mode: str) -> None:
    """Also when the parent is killed without a chance to clean up, and the child hangs."""
    with subprocess.Popen([sys.executable, "-c", PARENT, str(FAKE), mode], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
        until(lambda: not alive(child))
