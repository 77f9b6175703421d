"""Settings of all tests."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from onboard.drivers.dds.participant import Wire
from tests.rigs.machine.install_rig import Machine, machine
from tests.rigs.network.loopback import SECTION, participants

# No deadline: kernels compile at their first call, and machines are shared. In CI the examples are the same every time.
settings.register_profile("onboard", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("onboard")

SLOW_FILE = Path(__file__).parent / "slow_tests.txt"
"""Tests and files that `make test` leaves to `make test-all`; written by `make test-times`."""
FIRST = {
    f"tests/{name}.py"
    for name in (
        "ros2/test_gateway", "examples/test_robots", "onboard/service/test_systemd_systemd",
        "onboard/commands/install/test_install", "onboard/drivers/dds/test_ros2", "onboard/drivers/dds/test_end_to_end",
        "hil/live/test_demo", "system/test_first_goal",
    )
}  # fmt: skip
"""Files whose tests wait for processes for a minute or more. They come first: no worker is left with one at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-times`."""
    parser.addoption("--times", metavar="FILE", help="write what each test took: seconds, phase, test")


def pytest_configure(config: pytest.Config) -> None:
    """Gather times where they are asked for, in the process that all reports reach.

    Handle signals as at a terminal: what nohup or a background job ignores, all that the tests start would ignore too.
    """
    for number, handler in ((signal.SIGHUP, _nothing), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
    if config.getoption("--times") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(Path(config.getoption("--times"))))


def _nothing(*_: object) -> None:
    """Handle a signal; other than SIG_IGN, a handler is not inherited by a program that is started."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, and put the longest files first."""
    slow = {line for line in SLOW_FILE.read_text().splitlines() if line and not line.startswith("#")}
    for item in items:
        file, _, test = item.nodeid.partition("::")
        if file in slow or f"{file}::{test.partition('[')[0]}" in slow:
            item.add_marker("slow")
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in FIRST)


class Times:
    """Writes what each phase of each test took."""

    def __init__(self, file: Path) -> None:
        self._file, self._rows = file, defaultdict[tuple[str, str], float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up one phase; the cases of one function count together."""
        self._rows[report.nodeid.partition("[")[0], report.when] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the table, longest first."""
        rows = sorted(((took, *row) for row, took in self._rows.items()), reverse=True)
        self._file.write_text("".join(f"{took:.3f}\t{when}\t{test}\n" for took, test, when in rows))


@pytest.fixture
def wires():
    """The runtime's participant and the other side's."""
    ours, theirs = Wire(SECTION), Wire(SECTION)
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture(autouse=True)
def _no_participant_stays() -> Iterator[None]:
    """Fail the test that leaves a participant in the domain of this process, where later tests would see its ends."""
    before = participants()
    yield
    assert participants() <= before, "a participant of this process was not closed: Wire.close"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with a real systemd to install on, one for the tests of a file."""
    with machine(tmp_path_factory.mktemp("machine")) as there:
        yield there


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a file's tests put the wheels that they install."""
    return tmp_path_factory.mktemp("wheels")
