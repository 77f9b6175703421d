"""Faults in a recording: the runtime's own ticks run on the recorded inputs, changed by the fault. Open loop.

The motion of the base, the times of ticks and the received messages are the recorded values. Decisions and commands are
new. A recording has images only where decisions began; between them the newest image replaces the missing images.
"""

from __future__ import annotations

from dataclasses import replace

from hil.reliability.faults.expectations import Run
from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.fault_proxies import FaultyInbox, FaultyInference
from hil.reliability.faults.inject.schedule import Scene, Schedule
from hil.reliability.faults.run.excerpt import Excerpt
from hil.reliability.faults.run.simulated import ONLY_PROCESS, changed
from hil.reliability.faults.verdict import Mode, Verdict, judge, not_run
from onboard.assembly.robot import build_rigs, building_of, robot_of, scan_topics
from onboard.config.config import Config
from onboard.policy.inference import InlineInference
from onboard.recording.tick_message import imageless, only_with_images
from onboard.runtime import Runtime
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.clock import NS_PER_S
from onboard.values.errors import OnboardError
from onboard.values.interfaces import Policy
from onboard.values.messages import ColorFrame, DepthFrame, Inputs, Twist

ANY_IMAGE = {"cameras": {"unchanged_m": 0.0}}
"""Switches off the check for frozen sensors: the newest image replaces images that were not recorded."""


def in_recording(fault: Fault, excerpt: Excerpt, policy: Policy, seed: int = 0) -> Verdict:
    """Play an excerpt with a fault and return its verdict."""
    missing = _missing(fault, excerpt)
    if fault.make is None or missing:
        return not_run(fault, Mode.RECORDING, missing or ONLY_PROCESS)
    config = changed(excerpt.session.config, fault.sections)
    onset_ns = excerpt.ticks[excerpt.onset].slot.start_ns
    planned = fault.planned(Scene(config, excerpt.session.mounts, seed), onset_ns)
    run = play(excerpt, config, policy, Schedule(planned))
    run = replace(run, onset_ns=onset_ns, end_ns=planned[0].end_ns)
    return judge(fault, Mode.RECORDING, run, config, excerpt.plant, lambda: play(excerpt, config, policy, Schedule()))


def play(excerpt: Excerpt, config: Config, policy: Policy, schedule: Schedule) -> Run:
    """Play an excerpt with faults, to its end or until an error. The caller sets onset and end of the run."""
    tape, mounts = _Tape(excerpt), excerpt.session.mounts
    config = changed(config, ANY_IMAGE)
    robot = robot_of(config, build_rigs(config, mounts), excerpt.plant, policy, excerpt.zones, building_of(config))
    inbox = FaultyInbox(tape, mounts, config, schedule)
    inference = FaultyInference(InlineInference(policy, tape.now_ns), tape, schedule)
    runtime = Runtime(robot, tape, inbox, inference, tape)
    runtime.state = excerpt.state
    lived: list[TickRecord] = []
    try:
        with unlogged():
            for tick in excerpt.ticks:
                tape.now = tick
                lived.append(imageless(runtime.tick(tick.slot)))
    except OnboardError as error:
        return Run(lived, 0, 0, f"{type(error).__name__}: {error}")
    return Run(lived, 0, 0)


def _missing(fault: Fault, excerpt: Excerpt) -> str:
    """Return the reason why the excerpt cannot have a fault, or ""."""
    lived = excerpt.ticks[excerpt.onset :]
    end_ns = lived[0].slot.start_ns + round(fault.lasts_s * NS_PER_S)
    there = [tick for tick in lived if tick.slot.start_ns < end_ns]
    has = {
        Need.IMAGES: not scan_topics(excerpt.session.config),
        Need.SCANS: bool(scan_topics(excerpt.session.config)),
        Need.FIXES: any(tick.inputs.fixes for tick in there),
        Need.COLOR: any(only_with_images(tick.inputs).color is not None for tick in there),
    }
    return next((need.value for need in fault.needs if not has.get(need, False)), "")


class _Tape:
    """Clock, inbox and drive for an excerpt."""

    now: TickRecord

    def __init__(self, excerpt: Excerpt) -> None:
        self._depth: dict[str, DepthFrame] = dict(excerpt.depth)
        self._color: ColorFrame | None = excerpt.color

    def now_ns(self) -> int:
        """Return the time of the current tick [ns]."""
        return self.now.slot.start_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return at once: the recording gives the times of ticks."""

    def hold_until(self, deadline_ns: int) -> None:
        """Return at once, likewise."""

    def take(self, now_ns: int) -> Inputs:
        """Return the recorded inputs of the tick, with an image for every frame of the tick."""
        inputs = self.now.inputs
        self._depth |= only_with_images(inputs).depth
        self._color = only_with_images(inputs).color or self._color
        depth = {
            name: replace(self._depth[name], number=frame.number, stamp_ns=frame.stamp_ns)
            for name, frame in inputs.depth.items()
            if name in self._depth
        }
        color = None
        if inputs.color is not None and self._color is not None:
            color = replace(self._color, number=inputs.color.number, stamp_ns=inputs.color.stamp_ns)
        return replace(inputs, depth=depth, color=color)

    def send(self, command: Twist) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Do nothing."""
