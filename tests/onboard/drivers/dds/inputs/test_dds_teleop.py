"""An operator's command and a goal that were long under way are as old as that, not as new as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from cyclonedds.idl import IdlStruct
from structlog.testing import capture_logs

from onboard.config.config import LimitsSection
from onboard.drivers.dds.command_inputs import LOGGED_NS
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.participant import Reader, Wire, wait_until
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.ros_convert import ros_goal, ros_twist
from onboard.drivers.dds.ros_types import Header, TwistStamped
from onboard.drivers.dds.topics import also_as
from onboard.episode import LATE_NS
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, Inputs, Pose, Teleop, Twist
from tests.rigs.network.loopback import PATIENCE_S, SECTION
from tests.rigs.runtime_bench import FORWARD, Bench, Puppet

MS = 1_000_000
TICK_MS = 33
BEGAN_NS = 1_700_000_000 * NS_PER_S
"""The sender's clock when ours began."""


class Talk:
    """One writer of a topic, and the inputs that hear it: a message arrives when it is said to arrive."""

    def __init__(self, ours: Wire, theirs: Wire, name: str, inputs: DdsInputs) -> None:
        self._writer, self._witness, self._inputs = theirs.writer(name), ours.reader(name), inputs
        assert wait_until(lambda: bool(self._writer.readers() >= 2 and self._witness.writers()), PATIENCE_S)

    def arrive(self, sample: IdlStruct, written_ms: float, now_ms: float) -> Inputs:
        """Return the inputs of the tick in which a message arrives; there was another one just before it."""
        self._inputs.take(round((now_ms - TICK_MS) * MS))
        self._writer.write(sample, BEGAN_NS + round(written_ms * MS))
        assert wait_until(lambda: heard(self._witness), PATIENCE_S)
        return self._inputs.take(round(now_ms * MS))


def heard(witness: Reader) -> bool:
    return bool(witness.take())


@pytest.fixture
def inputs(wires) -> DdsInputs:
    return DdsInputs(wires[0])


@pytest.fixture
def unjudged() -> Iterator[Wire]:
    """A wire on which nothing is late."""
    wire = Wire(SECTION.model_copy(update={"judge_late": False}))
    yield wire
    wire.close()


def ages_ms(talk: Talk, came_ms: Sequence[tuple[float, float]]) -> list[int | str]:
    """Return how old the newest command counts as whenever one arrives, or HELD. came_ms: written and arrived."""
    found: list[int | str] = []
    for written_ms, now_ms in came_ms:
        teleop = talk.arrive(ros_twist(GO), written_ms, now_ms).teleop
        assert teleop is not None
        assert teleop == Teleop(round(now_ms * MS), STOP) or teleop.twist == GO
        found.append(HELD if teleop.twist == STOP else round(now_ms - teleop.arrival_ns / MS))
    return found


GO = Twist(0.1, 0.0)
HELD = "a stop, as new as it arrives"
DEAD_MAN_MS = round(LimitsSection().teleop_dead_man_s * 1e3)
FRESH_MS = DEAD_MAN_MS - 20
HOUR_MS = 3_600_000
QUEUED = [(0, 20), (100, 120), (200, 5220), (300, 5320)]
SET_BACK = [(0, 20), (-1900, 120), (-1800, 220), (-1700, 320), (-1600, 520)]

#   what                        written, arrived [ms], by clocks that are apart               old [ms]
COMMANDS = [
    ("on time",                     [(0, 20), (100, 120), (200, 220)],                            [0, 0, 0]),
    ("after five seconds' queue",   QUEUED,                                                       [0, 0, HELD, HELD]),
    ("late, then on time",          [(0, 20), (100, 320), (400, 420)],                            [0, 200, 0]),
    ("too late, then on time",      [(0, 20), (100, 720), (800, 820)],                            [0, HELD, 0]),
    ("so late that it just counts", [(0, 20), (900, 900 + DEAD_MAN_MS)],                          [0, FRESH_MS]),
    ("a little later than that",    [(0, 20), (900, 950 + DEAD_MAN_MS)],                          [0, HELD]),
    ("the first after a silence",   [(0, 20), (100, 720), (20_000, 20_620), (20_100, 20_720)],    [0, HELD, 0, 0]),
    ("later and later",             [(0, 20), (100, 170), (200, 320)],                            [0, 50, 100]),
    ("late from the first on",      [(0, 5020), (100, 5120)],                                     [0, 0]),
    ("a clock set back by an hour", [(0, 20), (100 - HOUR_MS, 120), (200 - HOUR_MS, 320)],        [0, 0, 100]),
    ("a clock set back by 2 s",     SET_BACK,                                                     [0, 0, 0, 0, 100]),
    ("a clock set forward",         [(0, 20), (100 + HOUR_MS, 120), (200 + HOUR_MS, 320)],        [0, 0, 100]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "came_ms", "old_ms"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_command_is_as_old_as_it_came_late(wires, inputs, what, came_ms, old_ms):
    found = ages_ms(Talk(*wires, "cmd_vel_teleop", inputs), came_ms)
    assert [one == HELD for one in found] == [one == HELD for one in old_ms]
    ages = [(one, old) for one, old in zip(found, old_ms, strict=True) if HELD not in (one, old)]
    assert [one for one, _ in ages] == pytest.approx([old for _, old in ages], abs=2), "within what clocks run apart"


def test_where_clocks_are_not_judged_nothing_is_late(unjudged, wires):
    assert ages_ms(Talk(unjudged, wires[1], "cmd_vel_teleop", DdsInputs(unjudged)), QUEUED) == [0] * 4


def test_an_operator_whose_link_is_late_does_not_take_over_from_one_whose_is_not(wires, inputs):
    far_wire = Wire(SECTION)
    near, far = Talk(*wires, "cmd_vel_teleop", inputs), Talk(wires[0], far_wire, "cmd_vel_teleop", inputs)
    far.arrive(ros_twist(Twist(0.9, 0.0)), 0, 20)
    near.arrive(ros_twist(Twist(0.1, 0.0)), 200, 220)
    taken = far.arrive(ros_twist(Twist(0.9, 0.0)), 100, 320).teleop
    far_wire.close()
    assert taken is not None
    assert (taken.twist, taken.arrival_ns) == (Twist(0.1, 0.0), 220 * MS)


LATE, LESS, NEAR = ("far", 100, 720), ("far", 420, 720), ("near", 720, 740)

#   what                                               who, written, arrived [ms]  at [ms]  in force then
HELDS = [
    ("one that is late holds for the dead man's time", [LATE],                        1220, Teleop(720 * MS, STOP)),
    ("then no longer",                                 [LATE],                        1221, None),
    ("one that is less late: driven by, then held",    [LESS],                        1000, Teleop(720 * MS, STOP)),
    ("not while one on time drives",                   [NEAR, ("far", 100, 800)],     1200, Teleop(740 * MS, GO)),
    ("but once that has run out",                      [NEAR, ("far", 100, 800)],     1250, Teleop(800 * MS, STOP)),
]  # fmt: skip


@pytest.mark.parametrize(("what", "came", "at_ms", "drives"), HELDS, ids=[row[0] for row in HELDS])
def test_a_late_command_holds_the_robot_and_does_not_move_it(wires, inputs, what, came, at_ms, drives):
    far_wire = Wire(SECTION)
    talks = {
        "near": Talk(*wires, "cmd_vel_teleop", inputs),
        "far": Talk(wires[0], far_wire, "cmd_vel_teleop", inputs),
    }
    for talk in talks.values():
        talk.arrive(ros_twist(GO), 0, 20)
    for who, written_ms, now_ms in came:
        talks[who].arrive(ros_twist(GO), written_ms, now_ms)
    inputs.take((at_ms - TICK_MS) * MS)
    taken = inputs.take(at_ms * MS).teleop
    far_wire.close()
    assert taken is not None
    in_force = at_ms * MS - taken.arrival_ns <= DEAD_MAN_MS * MS
    assert (taken if in_force else None) == drives


def test_how_long_is_the_dead_mans_time_of_the_configuration(wires):
    inputs = DdsInputs(wires[0], limits=LimitsSection(teleop_dead_man_s=0.1))
    assert ages_ms(Talk(*wires, "cmd_vel_teleop", inputs), [(0, 20), (100, 200), (200, 360)]) == [0, 80, HELD]


def held_at_zero(wires: tuple[Wire, Wire], late_ms: float) -> list[float]:
    """Return the speeds that a robot under way is told while an operator says zero, after a touch that came at once."""
    inputs, bench = DdsInputs(wires[0]), Bench(Puppet(FORWARD))
    talk, arriving = Talk(*wires, "cmd_vel_teleop", inputs), False

    def alter(own: Inputs) -> Inputs:
        now_ms = own.now_ns / MS
        heard = talk.arrive(ros_twist(STOP), now_ms - late_ms, now_ms) if arriving else inputs.take(own.now_ns)
        return replace(own, teleop=heard.teleop)

    bench.alter = alter
    bench.ask(x_m=30.0)
    bench.tick()
    inputs.take(bench.clock.now_ns() - 1)
    talk.arrive(ros_twist(STOP), bench.clock.now_ns() / MS, bench.clock.now_ns() / MS)
    bench.ticks(60)
    arriving = True
    return [tick.command.v_mps for tick in bench.ticks(60)]


def test_an_operator_stops_the_robot_however_late_his_link_is(wires):
    for late_ms in (0.0, 400.0, 600.0, 1900.0):
        assert set(held_at_zero(wires, late_ms)) == {0.0}, late_ms


def test_that_commands_come_late_is_told_once(wires, inputs):
    told_ms = LOGGED_NS // MS
    with capture_logs() as logs:
        ages_ms(
            Talk(*wires, "cmd_vel_teleop", inputs),
            [(0, 20), (100, 120 + told_ms), (200, 230 + told_ms), (300, 360 + told_ms), (900, 920)],
        )
    assert [log["event"] for log in logs] == ["teleop_late"]
    assert logs[0]["why"] == "the network, or its clock was set back"


def test_a_goal_that_was_long_under_way_arrives_as_long_ago(wires, inputs):
    talk, found = Talk(*wires, "goal_pose", inputs), []
    for written_s, arrived_s in ((0.0, 0.1), (9.0, 69.1), (80.0, 80.1)):
        (goal,) = talk.arrive(ros_goal(0, "odom", Pose(3.0, 0.0, 0.0)), written_s * 1e3, arrived_s * 1e3).goals
        found.append(arrived_s - goal.arrival_ns / NS_PER_S)
    assert found == pytest.approx([0.0, 60.0, 0.0], abs=0.05)


REFUSED = "goal refused: the goal is 5.0 s late (limit 5 s), or its sender's clock was set back"


@pytest.mark.parametrize(("late_ns", "taken"), [(LATE_NS, True), (LATE_NS + MS, False)])
def test_a_goal_that_came_too_late_is_refused_in_one_line_and_the_drive_goes_on(late_ns: int, taken: bool) -> None:
    bench = Bench()
    bench.ticks(3)
    bench.ask(x_m=3.0)
    episode = bench.ticks(30)[-1].episode
    bench.alter = lambda i: replace(i, goals=tuple(replace(goal, arrival_ns=i.now_ns - late_ns) for goal in i.goals))
    bench.ask(x_m=1.0)
    tick = bench.tick()
    assert (tick.episode != episode) == taken
    assert tick.state.startswith("navigating")
    assert tick.state.endswith(REFUSED) != taken


def test_a_stamped_command_drives_like_a_plain_one_and_is_no_other_type(wires):
    ours, theirs = wires
    inputs, peers = DdsInputs(ours), Peers(ours)
    writer = theirs.writer(also_as(theirs.section, "cmd_vel_teleop"))
    assert writer.wait_for_reader(PATIENCE_S)

    def driven() -> bool:
        writer.write(TwistStamped(Header(), ros_twist(Twist(0.25, -0.5))))
        teleop = inputs.take(BEGAN_NS).teleop
        return teleop is not None and teleop.twist == Twist(0.25, -0.5)

    assert wait_until(driven, PATIENCE_S)
    peers.poll()
    assert peers.faults() == []
