"""An e-stop is not lost in a tick, with its publisher or among the words of others; the last stop is repeated."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from onboard.config.config import DdsSection
from onboard.drivers.dds.command_inputs import PAUSE_NS
from onboard.drivers.dds.latched_inputs import Alarm
from onboard.drivers.dds.participant import Wire, matched, wait_until
from onboard.drivers.dds.robot_link import STOP_TRIES, DdsDrive, DdsInputs
from onboard.drivers.dds.ros_convert import ros_twist
from onboard.drivers.dds.ros_types import BatteryState, Bool
from onboard.drivers.dds.topics import LATCHED, WORD, topic
from onboard.values.clock import NS_PER_S
from onboard.values.errors import DriverError
from onboard.values.messages import STOP, Twist
from tests.rigs.network.loopback import PATIENCE_S, SECTION, Sender, free_domain


@pytest.fixture
def another() -> Iterator[Wire]:
    """A third participant: beside a button, one who says something else."""
    wire = Wire(SECTION)
    yield wire
    wire.close()


def test_a_press_that_ends_within_the_tick_counts_for_it(wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    sender.send("e_stop", Bool(True), Bool(False))
    assert inputs.take(1).e_stop is True
    assert inputs.take(2).e_stop is False


def test_an_e_stop_of_the_other_polarity_is_pressed_at_false_and_while_it_is_unknown(wires):
    """As a chain of contacts that is closed while all is well."""
    section = SECTION.model_copy(update={"e_stop_pressed": False, "e_stop_required": True})
    ours = Wire(section)
    inputs, sender = DdsInputs(ours), Sender(ours, wires[1])
    assert inputs.take(1).e_stop is True
    sender.send("e_stop", Bool(True))
    assert inputs.take(2).e_stop is False
    sender.send("e_stop", Bool(False), Bool(True))
    assert inputs.take(3).e_stop is True
    assert inputs.take(4).e_stop is False
    ours.close()


def test_of_one_sender_the_last_word_is_the_pause_and_of_several_a_pause_wins(wires, another):
    inputs, first, second = DdsInputs(wires[0]), Sender(*wires), Sender(wires[0], another)
    assert inputs.take(1).pause is None
    first.send("pause", Bool(True), Bool(False))
    assert inputs.take(2).pause is False
    first.send("pause", Bool(True))
    second.send("pause", Bool(False))
    assert inputs.take(3).pause is True
    assert inputs.take(4).pause is None


#   percentage as sent        charge
CHARGES = [(0.42, 0.42), (42.0, 0.42), (1.0, 1.0), (0.0, 0.0), (float("nan"), None), (-1.0, None), (float("inf"), None)]


@pytest.mark.parametrize(("stated", "charge"), CHARGES)
def test_a_charge_is_taken_as_a_fraction_or_in_percent_or_not_at_all(stated, charge, wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    sender.send("battery", BatteryState(percentage=stated))
    assert inputs.take(1).battery == (None if charge is None else pytest.approx(charge))


def test_of_two_batteries_the_lower_counts_until_its_sender_is_gone(wires, another):
    inputs, first, second = DdsInputs(wires[0]), Sender(*wires), Sender(wires[0], another)
    first.send("battery", BatteryState(percentage=0.75))
    second.send("battery", BatteryState(percentage=0.25))
    assert inputs.take(1).battery == 0.25
    another.close()

    def gone() -> bool:
        first.send("battery", BatteryState(percentage=0.75))
        return inputs.take(2).battery == 0.75

    assert wait_until(gone, PATIENCE_S)


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


@pytest.mark.parametrize("times", [17, WORD.depth - 2, 2 * WORD.depth])
def test_one_press_is_not_lost_among_the_words_of_another_in_a_tick_that_is_long(times, wires, another):
    inputs = DdsInputs(wires[0])
    button, beating = Sender(*wires), Sender(wires[0], another)
    beating.send("e_stop", Bool(False))
    button.send("e_stop", Bool(False))
    assert inputs.take(1).e_stop is False
    button.send("e_stop", Bool(True))
    beating.send("e_stop", *[Bool(False)] * times)
    assert inputs.take(2).e_stop is True
    beating.send("e_stop", Bool(False))
    assert inputs.take(3).e_stop is True
    button.send("e_stop", Bool(False))
    assert inputs.take(4).e_stop is False


def test_what_a_full_queue_has_lost_counts_as_a_press_until_each_sender_spoke(wires, another):
    alarm = Alarm(wires[0], "e_stop", unknown_is_true=True)
    silent, flood = Sender(*wires), Sender(wires[0], another)
    flood.send("e_stop", *[Bool(False)] * WORD.depth)
    assert alarm.take(1) is True, "it may have been one of its own"
    assert alarm.take(1) is False
    silent.send("e_stop", Bool(False))
    assert alarm.take(1) is False
    silent.send("e_stop", Bool(False))
    flood.send("e_stop", *[Bool(False)] * WORD.depth)
    assert [alarm.take(1) for _ in range(3)] == [True] * 3
    silent.send("e_stop", Bool(False))
    assert alarm.take(1) is False


def test_a_full_queue_tells_nothing_of_a_sender_that_has_one_of_its_own(wires, another):
    """A button that keeps its word is heard by a reader beside the one that the steady word overfilled."""
    alarm, witness = Alarm(wires[0], "e_stop", unknown_is_true=True), wires[0].reader("e_stop")
    button = wires[1].writer(replace(topic("e_stop"), quality=LATCHED))
    assert wait_until(lambda: bool(button.readers() and witness.writers()), PATIENCE_S)
    button.write(Bool(False))
    assert wait_until(lambda: alarm.take(1) is False, PATIENCE_S)
    Sender(wires[0], another).send("e_stop", *[Bool(False)] * WORD.depth)
    assert [alarm.take(1) for _ in range(3)] == [True, False, False]


def test_a_full_queue_gives_no_word_to_a_sender_that_never_spoke(wires, another):
    """Nor leaves it one behind that nobody could take back."""
    alarm, mute = Alarm(wires[0], "e_stop", unknown_is_true=True), Wire(SECTION)
    witness = wires[0].reader("e_stop")
    mute.writer("e_stop")
    assert wait_until(lambda: len(witness.writers()) == 1, PATIENCE_S)
    flood = Sender(wires[0], another)
    flood.send("e_stop", *[Bool(False)] * WORD.depth)
    assert [alarm.take(1) for _ in range(3)] == [True, False, False]
    mute.close()
    assert wait_until(lambda: len(witness.writers()) == 1, PATIENCE_S)
    assert alarm.take(1) is False


def test_a_sender_that_spoke_and_went_while_its_queue_was_full_is_one_that_pressed(wires, another):
    alarm, gone = Alarm(wires[0], "e_stop", unknown_is_true=True), Wire(SECTION)
    witness = wires[0].reader("e_stop")
    Sender(wires[0], gone).send("e_stop", Bool(False))
    assert alarm.take(1) is False
    Sender(wires[0], another).send("e_stop", *[Bool(False)] * WORD.depth)
    gone.close()
    assert wait_until(lambda: len(witness.writers()) == 1, PATIENCE_S)
    assert [alarm.take(1) for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("word", [True, False])
def test_what_senders_said_before_the_first_tick_overfills_none_of_its_queues(word, wires, another):
    """As while a long recording is repaired: the steady word of one, and a button that keeps its own."""
    inputs, witness = DdsInputs(wires[0]), wires[0].reader("e_stop")
    button = wires[1].writer(replace(topic("e_stop"), quality=LATCHED))
    button.write(Bool(word))
    assert wait_until(lambda: bool(witness.take()), PATIENCE_S)
    Sender(wires[0], another).send("e_stop", *[Bool(False)] * WORD.depth)
    inputs.drain_states()
    assert [inputs.take(1).e_stop, inputs.take(2).e_stop] == [word] * 2


@pytest.mark.parametrize("word", [True, False])
def test_a_full_queue_makes_no_notice_of_an_obstacle(word, wires, another):
    """It would have the robot back off where it stands: the last word that is known stays."""
    inputs = DdsInputs(wires[0])
    Sender(*wires).send("obstacle", Bool(word))
    assert inputs.take(1).obstacle is word
    Sender(wires[0], another).send("obstacle", *[Bool(False)] * WORD.depth)
    assert [inputs.take(2).obstacle, inputs.take(3).obstacle] == [word] * 2


def test_who_starts_anew_hears_the_press_that_a_sender_keeps(wires):
    """As after a crash: the button is pressed, and says so no more."""
    button = wires[1].writer(replace(topic("e_stop"), quality=LATCHED))
    button.write(Bool(True))
    for _ in range(2):
        ours = Wire(SECTION)
        inputs, witness = DdsInputs(ours), ours.reader("e_stop")
        assert wait_until(lambda reported=witness: bool(reported.take()), PATIENCE_S)
        assert [inputs.take(1).e_stop, inputs.take(2).e_stop] == [True] * 2
        button.write(Bool(False))
        assert wait_until(lambda reported=inputs: reported.take(3).e_stop is False, PATIENCE_S)
        button.write(Bool(True))
        ours.close()


def test_each_word_of_a_sender_that_keeps_them_is_heard_once(wires):
    button, reader = wires[1].writer(replace(topic("e_stop"), quality=LATCHED)), wires[0].reader("e_stop")
    button.write(Bool(True))
    assert wait_until(lambda: bool(reader.take()), PATIENCE_S)
    for word in (True, False, True):
        button.write(Bool(word))
    assert button.wait_for_acks(PATIENCE_S)
    assert [message.sample.data for message in reader.take()] == [True, False, True]


def test_where_an_e_stop_is_required_it_counts_as_pressed_while_nobody_is_there_to_release_it(wires):
    ours, button = Wire(SECTION.model_copy(update={"e_stop_required": True})), Wire(SECTION)
    inputs, witness = DdsInputs(ours), wires[0].reader("e_stop")
    assert inputs.take(1).e_stop is True
    Sender(wires[0], button).send("e_stop", Bool(False))
    assert [inputs.take(2).e_stop, inputs.take(3).e_stop] == [False] * 2
    button.close()
    assert wait_until(lambda: not witness.writers(), PATIENCE_S)
    assert inputs.take(4).e_stop is True
    Sender(*wires).send("e_stop", Bool(False))
    assert inputs.take(5).e_stop is False
    ours.close()


def test_a_reader_keeps_nothing_of_senders_that_are_gone(wires):
    reader = wires[0].reader("obstacle")

    def kept() -> int:
        """How much the reader holds, apart from its ends of the link."""
        return len(repr({name: value for name, value in vars(reader).items() if name != "_entities"}))

    sizes = []
    for _ in range(6):
        sender = Wire(SECTION)
        Sender(wires[0], sender).send("obstacle", Bool(False))
        assert wait_until(lambda: bool(reader.take()), PATIENCE_S)
        sender.close()
        assert wait_until(lambda: not reader.writers(), PATIENCE_S)
        reader.take()
        sizes.append(kept())
    assert max(sizes) - min(sizes) < 20


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


# ---- A required e-stop whose sender is killed, hangs or is cut off counts as pressed long before DDS knows of it

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
