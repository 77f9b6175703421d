"""A required e-stop whose sender is killed, hangs or is cut off counts as pressed long before DDS knows of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from onboard.config.config import DdsSection
from onboard.drivers.dds.participant import Wire, matched, wait_until
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.ros_types import Bool
from onboard.values.clock import NS_PER_S
from tests.rigs.network.loopback import PATIENCE_S, SECTION, Sender, free_domain

REQUIRED = SECTION.model_copy(update={"e_stop_required": True})
LIMIT_NS = round(REQUIRED.e_stop_timeout_s * NS_PER_S)
BEATING = """
import sys
import time
from onboard.config.config import DdsSection
from onboard.drivers.dds.ros_types import Bool
from onboard.drivers.dds.participant import Wire

wire = Wire(DdsSection(domain=int(sys.argv[1])))
out = wire.writer("e_stop")
while True:
    out.write(Bool(sys.argv[2] == "pressed"))
    time.sleep(0.05)
"""


@pytest.fixture
def ours() -> Iterator[Wire]:
    """The runtime's end, which requires an e-stop."""
    wire = Wire(REQUIRED)
    yield wire
    wire.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_sender_that_is_killed_or_hangs_counts_as_a_press_before_dds_misses_it(how):
    domain = free_domain()  # what is left of it is not in the way of others
    wire = Wire(REQUIRED.model_copy(update={"domain": domain}))
    inputs, witness = DdsInputs(wire), wire.reader("e_stop")

    def pressed() -> bool | None:
        return inputs.take(time.monotonic_ns()).e_stop

    with subprocess.Popen([sys.executable, "-c", BEATING, str(domain), "released"]) as sender:
        try:
            assert wait_until(lambda: pressed() is False, 4 * PATIENCE_S)
            sender.send_signal(how)
            assert wait_until(lambda: pressed() is True, PATIENCE_S)
            assert matched(witness._entities[-1]), "DDS still takes it for alive"
        finally:
            sender.kill()
            wire.close()


def test_the_press_of_a_killed_sender_ends_with_a_later_one_before_dds_misses_it():
    section = SECTION.model_copy(update={"domain": free_domain()})
    ours, early, late = Wire(section), Wire(section), Wire(section)
    inputs, witness, steady = DdsInputs(ours), ours.reader("e_stop"), early.writer("e_stop")

    def pressed() -> bool | None:
        steady.write(Bool(False))
        return inputs.take(time.monotonic_ns()).e_stop

    with subprocess.Popen([sys.executable, "-c", BEATING, str(section.domain), "pressed"]) as sender:
        try:
            assert wait_until(lambda: pressed() is True, 4 * PATIENCE_S)
            assert wait_until(lambda: len(witness.writers()) == 2, PATIENCE_S)
            sender.kill()
            assert wait_until(lambda: len(witness.writers()) == 1, PATIENCE_S)
            assert len(matched(witness._entities[-1])) == 2, "DDS still takes it for alive"
            assert pressed() is True
            assert pressed() is True, "not by one that was there all the time"
            later = late.writer("e_stop")

            def released() -> bool:
                later.write(Bool(False))
                return pressed() is False

            assert wait_until(released, PATIENCE_S)
        finally:
            sender.kill()
            for wire in (ours, early, late):
                wire.close()


def test_a_sender_that_falls_silent_counts_as_a_press_until_it_speaks_again(ours, wires):
    inputs, button = DdsInputs(ours), Sender(ours, wires[1])
    button.send("e_stop", Bool(False))
    with capture_logs() as logs:
        said_ns = 7 * NS_PER_S
        found = [inputs.take(said_ns + after_ns).e_stop for after_ns in (0, LIMIT_NS, LIMIT_NS + 1, 2 * LIMIT_NS)]
    assert found == [False, False, True, True]
    assert [(log["event"], log["topic"]) for log in logs] == [("sender_silent", "e_stop")]
    button.send("e_stop", Bool(False))
    assert inputs.take(said_ns + 3 * LIMIT_NS).e_stop is False


def test_a_steady_no_of_another_does_not_hide_that_a_sender_fell_silent(ours, wires):
    inputs, button, beating = DdsInputs(ours), Sender(ours, wires[0]), Sender(ours, wires[1])
    found = []
    for number in range(4):
        if number == 0:
            button.send("e_stop", Bool(False))
        beating.send("e_stop", Bool(False))
        found.append(inputs.take(number * LIMIT_NS // 2).e_stop)
    assert found == [False, False, False, True]


def test_a_press_stays_one_in_silence_and_one_that_is_not_required_may_be_silent(ours, wires):
    required, free, button = DdsInputs(ours), DdsInputs(wires[0]), Sender(ours, wires[1])
    Sender(*wires).send("e_stop", Bool(False))
    assert free.take(0).e_stop is False
    assert free.take(100 * LIMIT_NS).e_stop is False
    button.send("e_stop", Bool(True))
    assert [required.take(after * LIMIT_NS).e_stop for after in (0, 1, 2, 100)] == [True] * 4


@pytest.mark.parametrize("wrong", [0.0, -1.0, 10.1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(wrong):
    with pytest.raises(ValidationError):
        DdsSection(e_stop_timeout_s=wrong)
