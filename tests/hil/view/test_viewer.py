"""The command end to end: live and recorded views, and its error messages."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from hil.view.viewer_process import HOST, Outlet, Viewer, choose_outlet
from onboard.values.errors import DriverError, InputError

pytest.importorskip("rerun")

from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.look.view import summary
from hil.view.queue import ViewCounts
from hil.view.viewer import ViewOptions, run_view
from onboard.config.config import DEFAULT_ROBOT
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_image, ros_transform, ros_twist
from onboard.drivers.dds.ros_types import TFMessage
from onboard.values.clock import wall_ns
from onboard.values.errors import ConfigError, MissingExtraError, OnboardError
from onboard.values.messages import Pose, Twist
from tests.hil.view.rrd import Saved
from tests.rigs.machine.processes import toml
from tests.rigs.network.loopback import SECTION
from tests.rigs.view_bench import Recorded, record_drive

PERIOD_S = 0.02


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_drive(tmp_path_factory.mktemp("drive"))


class Robot:
    """Publishes, in a thread, what a runtime would: a drive along x with commands that count up."""

    def __init__(self) -> None:
        self.sent: list[float] = []
        self._wire = Wire(SECTION)  # opened before the view is: cyclonedds does not open topics in two threads at once
        self._writers = [self._wire.writer(name) for name in ("tf", "cmd_vel", "rear/depth/image")]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Robot:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._wire.close()

    def _run(self) -> None:
        tf, command, camera = self._writers
        while not self._over.wait(PERIOD_S):
            v = 0.01 * len(self.sent)
            self.sent.append(v)
            tf.write(TFMessage([ros_transform(wall_ns(), "odom", "base_link", Pose(v, 0.0, 0.0))]))
            command.write(ros_twist(Twist(v, 0.0)))
            camera.write(ros_image(wall_ns(), "rear", "16UC1", np.full((60, 80), 1234, np.uint16)))


@pytest.mark.parametrize("building", [None, "gdc1"])
def test_a_live_drive_is_saved_as_it_was_told(tmp_path, building):
    config = toml(tmp_path / "onboard.toml", dds={"domain": SECTION.domain})
    before_ns = wall_ns()
    with Robot() as robot:
        options = ViewOptions(map_name=building, bare=True, config=config, save=tmp_path / "a.rrd", seconds=2.0)
        shown = run_view(options)
    view = Saved(tmp_path / "a.rrd")
    commands = view.rows["/commands/v/sent"]["scalars"]
    values = [value[0] for _, value in commands]
    assert len(values) > 3
    assert set(values) <= set(robot.sent)
    assert values == sorted(values)  # none twice over, none late
    times = [at for at, _ in commands]
    assert before_ns < times[0] <= times[-1] < wall_ns()
    assert view.values("/map/odom/base", "translation")[-1][0] == pytest.approx(values[-1], abs=0.05)
    depth = np.array(view.values("/map/odom/base/rear/depth", "buffer")[-1], np.uint8).view(np.uint16)
    assert set(depth.tolist()) == {1234}
    assert ("/map/building/boxes" in view.rows) == (building is not None)
    assert (shown.dropped, shown.unshowable) == ({}, 0)
    assert shown.shown >= len(values)


def test_a_recording_is_saved_whole(drive, tmp_path):
    shown = run_view(ViewOptions(source=drive.path, save=tmp_path / "a.rrd"))
    view = Saved(tmp_path / "a.rrd")
    assert view.times("/commands/v/sent") == drive.times_ns
    assert (shown.dropped, shown.unshowable) == ({}, 0)
    assert "/map/odom/base/front/depth" in view.rows
    without = run_view(ViewOptions(source=drive.path, save=tmp_path / "b.rrd", images=False))
    assert without.shown < shown.shown
    assert Saved(tmp_path / "b.rrd").times("/map/odom/base/front/depth") == []


def test_of_a_damaged_recording_what_was_good_is_saved(drive, tmp_path):
    path = tmp_path / "damaged.mcap"
    data = bytearray(drive.path.read_bytes())
    with_last_chunk = data.rindex(b"\x28\xb5\x2f\xfd", 0, int(len(data) * 0.9))  # where a zstd frame begins
    data[with_last_chunk + 100] ^= 0x5A
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged after the messages of"):
        run_view(ViewOptions(source=path, save=tmp_path / "a.rrd"))
    times = Saved(tmp_path / "a.rrd").times("/commands/v/sent")
    assert 0 < len(times) < len(drive.ticks)
    assert times == drive.times_ns[: len(times)]


def test_an_image_that_does_not_fit_the_mounts_is_counted_and_the_rest_is_shown(drive, tmp_path):
    mounts = tmp_path / "mounts.toml"
    mounts.write_text((DEFAULT_ROBOT / "mounts.toml").read_text().replace("width = 80", "width = 40"))
    config = toml(tmp_path / "onboard.toml", robot={"mounts": mounts})
    shown = run_view(ViewOptions(source=drive.path, config=config, save=tmp_path / "a.rrd"))
    assert shown.unshowable > 0
    assert "image is 80x60, mounts say 40x60" in shown.problem
    assert Saved(tmp_path / "a.rrd").times("/commands/v/sent") == drive.times_ns


def test_without_rerun_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingExtraError) as raised:
        run_view(ViewOptions(save=tmp_path / "a.rrd"))
    assert str(raised.value) == "rerun-sdk is not installed: pip install 'onboard[view]'"


def test_the_other_commands_need_no_rerun():
    program = "import sys\nsys.modules['rerun'] = None\nimport hil.__main__\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


#   what is asked                                       error         words
MISTAKES = [
    (["--map", "nowhere", "--out", "a.rrd"],           InputError,   "map nowhere: no such map"),
    (["--map", "gdc1", "--bare", "--episode", "1", "--out", "a.rrd"], InputError, "--bare draws no furniture"),
    (["--out", "nowhere/a.rrd"],                       OnboardError, "there is no folder nowhere"),
    (["--out", "."],                                   OnboardError, "is a folder"),
    (["nothing.mcap", "--out", "a.rrd"],               InputError,   "nothing.mcap: cannot be read"),
    (["--config", "none.toml", "--out", "a.rrd"],      ConfigError,  "none.toml: cannot be read"),
    ([],                                                InputError,   "no display here"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "words"), MISTAKES, ids=[row[2] for row in MISTAKES])
def test_a_mistake_is_one_line(arguments, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(app, ["view", *arguments])
    assert isinstance(result.exception, error)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_summary_counts_what_was_lost():
    assert summary(ViewCounts(10, {}, 0, "", 0)) == "10 messages shown, 0 dropped\n"
    text = summary(ViewCounts(10, {"scan": 2, "odom": 3}, 4, "front/depth/image: image is 4x4", 5))
    assert text.splitlines() == [
        "10 messages shown, 5 dropped: 3 of odom, 2 of scan",
        "5 were waiting for the viewer at the end",
        "4 could not be shown, the last: front/depth/image: image is 4x4",
    ]


# ---- The output of a view; nothing listens beyond this machine

FILE = Path("a.rrd")
DISPLAY, WAYLAND, NONE = {"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}, {"DISPLAY": ""}

#   --save  --serve  environment  outlet
OUTLETS = [
    (None,  False,   DISPLAY,     Outlet(None, False, True)),
    (None,  False,   WAYLAND,     Outlet(None, False, True)),
    (FILE,  False,   NONE,        Outlet(FILE, False, False)),
    (FILE,  False,   DISPLAY,     Outlet(FILE, False, False)),
    (None,  True,    NONE,        Outlet(None, True, False)),
    (FILE,  True,    DISPLAY,     Outlet(FILE, True, False)),
]  # fmt: skip


@pytest.mark.parametrize(("file", "serve", "environment", "outlet"), OUTLETS)
def test_a_window_opens_only_where_nothing_else_was_asked_for(file, serve, environment, outlet):
    assert choose_outlet(file, serve, environment) == outlet


@pytest.mark.parametrize("environment", [NONE, {}])
def test_without_a_display_one_line_says_how_to_look(environment):
    with pytest.raises(InputError) as raised:
        choose_outlet(None, False, environment)
    assert str(raised.value) == "no display here: give --out FILE.rrd to look later, or --serve to look in a browser"


def listening() -> dict[str, set[str]]:
    """Return the addresses (hexadecimal) at which this machine listens over TCP, by port."""
    found: dict[str, set[str]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, port = line.split()[1].split(":")
            if line.split()[3] == "0A":
                found.setdefault(str(int(port, 16)), set()).add(address)
    return found


def test_the_browser_viewer_answers_on_loopback_alone_and_ends():
    pytest.importorskip("rerun")
    viewer = Viewer(browser=True)
    try:
        ports = [url.rpartition(":")[2].split("/")[0] for url in (viewer.url, viewer.page.split("?")[0])]
        with urllib.request.urlopen(viewer.page, timeout=10.0) as answer:
            assert answer.status == 200
        assert {address for port in ports for address in listening()[port]} == {"0100007F"}
        assert f"http://{HOST}:" in viewer.page
    finally:
        viewer.end()
    assert not viewer.is_there()
    assert not set(ports) & set(listening())
    viewer.end()


def test_a_viewer_that_does_not_start_is_one_line(monkeypatch, tmp_path):
    broken = tmp_path / "rerun"
    broken.write_text("#!/bin/sh\necho starting >&2\necho no such driver >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("hil.view.viewer_process._executable", lambda: broken)
    with pytest.raises(DriverError, match="the Rerun viewer did not start: no such driver"):
        Viewer(browser=False)
