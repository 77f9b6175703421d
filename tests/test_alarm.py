"""An e-stop is not lost in a tick, with its publisher or among the words of others; the last stop is repeated."""

from __future__ import annotations

import pytest
from loopback import PATIENCE_S, SECTION, Sender

from onboard.drivers.dds import PAUSE_NS, STOP_TRIES, DdsDrive, DdsInputs
from onboard.drivers.ros_messages import ros_twist
from onboard.drivers.ros_types import Bool
from onboard.drivers.wire import Wire, wait_until
from onboard.errors import DriverError
from onboard.messages import STOP, Twist


def test_a_press_that_ends_within_the_tick_counts_for_it(wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    sender.send("e_stop", Bool(True), Bool(False))
    assert inputs.take(1).e_stop is True
    assert inputs.take(2).e_stop is False


def test_a_steady_no_beside_it_does_not_take_back_the_yes_of_a_publisher_that_died(wires):
    inputs = DdsInputs(wires[0])
    witness = wires[0].reader("e_stop")
    button, heartbeat, repaired = Wire(SECTION), Wire(SECTION), Wire(SECTION)
    beating = Sender(wires[0], heartbeat)
    beating.send("e_stop", Bool(False))
    Sender(wires[0], button).send("e_stop", Bool(True))
    assert inputs.take(1).e_stop is True
    button.close()
    assert wait_until(lambda: len(witness.writers()) == 1, PATIENCE_S)
    beating.send("e_stop", Bool(False))
    assert inputs.take(2).e_stop is True
    Sender(wires[0], repaired).send("e_stop", Bool(False))
    assert inputs.take(3).e_stop is False
    heartbeat.close()
    repaired.close()


def test_an_operators_command_that_waited_out_a_pause_is_not_taken(wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    inputs.take(1)
    sender.send("cmd_vel_teleop", ros_twist(Twist(0.5, 0.0)))
    assert inputs.take(2 + PAUSE_NS).teleop is None
    sender.send("cmd_vel_teleop", ros_twist(Twist(0.25, 0.0)))
    teleop = inputs.take(3 + PAUSE_NS).teleop
    assert teleop is not None
    assert teleop.twist == Twist(0.25, 0.0)


def test_the_last_stop_is_tried_again_and_never_hides_another_error(wires, monkeypatch: pytest.MonkeyPatch):
    drive = DdsDrive(wires[0])
    tried: list[Twist] = []

    def fail(command: Twist) -> None:
        tried.append(command)
        raise DriverError("the link is gone")

    monkeypatch.setattr(drive, "send", fail)
    drive.close()
    drive.close()
    assert tried == [STOP] * STOP_TRIES
