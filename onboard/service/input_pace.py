"""Why an input is stale though its messages are received: its rate, or stamps that do not follow real time.

    cause       messages of the last `WINDOW_NS`
    still       their stamps are all the same, or change more rarely than the age limit
    backward    many stamps are older than the one before
    rate        fewer than `NEEDED` within the age limit
    pace        stamps advance slower than real time, while latency is judged
    late        all are later than the quickest one by more than the limit, while latency is judged

Where nothing is received, `input_watch.py` says so. A text stays for `HELD_NS` while its cause stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from onboard.config.config import Config
from onboard.counters import Counters
from onboard.drivers.dds.sole_writer import SoleReader
from onboard.drivers.dds.topics import ros_topic, scan_source
from onboard.perception.scan_fusion import NO_SCAN
from onboard.state import TickRecord
from onboard.values import reasons
from onboard.values.clock import NS_PER_S, Sender, timed
from onboard.values.interfaces import InputFault
from onboard.values.reasons import NO_REASON, Said, of_topic, row_of

NS_PER_MS = 1_000_000
WINDOW_NS = 8 * NS_PER_S
LEAST_NS = 2 * NS_PER_S
LEAST_MESSAGES = 3
SILENT_NS = 3 * NS_PER_S
"""After a longer silence nothing is received."""
EVERY_NS = NS_PER_S // 2
RECENT_NS = 2 * NS_PER_S
"""An input that was stale within this time is stale, and a cause that was found is kept so long."""
HELD_NS = 10 * NS_PER_S
NEEDED, ENOUGH = 2.0, 0.9
"""Messages within the age limit, so that one may be lost, and the part of that rate without a fault."""
BACKWARD = 0.2
QUARTERS = 4
PACE_NS = 4 * NS_PER_S
LOST_NS = 80 * NS_PER_MS
"""A pace is measured over at least the first. A clock that loses less within the window is not named slow."""


@dataclass(slots=True)
class WatchedInput:
    """One input. Mutable: what is known of its messages.

    reader:    of its messages; row: of `/diagnostics`
    limit_ns:  its age limit; key: of the configuration, with the value
    judge_key: "" where latency is not judged
    age_ns:    age in a tick [ns]; None before the first message, and where no limit stops the robot
    holds:     whether the robot stands in a tick in which the input is stale
    """

    reader: SoleReader
    row: str
    limit_ns: int
    key: str
    judge_key: str
    age_ns: Callable[[TickRecord], int | None]
    holds: Callable[[TickRecord], bool]
    messages: deque[tuple[int, int]] = field(default_factory=deque)
    late: deque[tuple[int, int]] = field(default_factory=deque)
    sender: Sender | None = None
    stale_ns: int | None = None
    held_ns: int | None = None
    found: Said = NO_REASON
    found_ns: int = 0
    worded_ns: int = 0

    def take(self, record: TickRecord) -> None:
        """Take the messages of a tick, and note whether the input is stale."""
        now_ns, read = record.inputs.now_ns, self.reader.heard
        while read:
            stamp_ns, arrival_ns = read.popleft()
            self.messages.append((stamp_ns, arrival_ns))
            if self.sender is None or stamp_ns != self.sender.stamp_ns:
                timing, self.sender = timed(self.sender, stamp_ns, arrival_ns)
                self.late.append((timing.late_ns, arrival_ns))
        while self.messages and now_ns - self.messages[0][1] > WINDOW_NS:
            self.messages.popleft()
        while self.late and now_ns - self.late[0][1] > RECENT_NS:
            self.late.popleft()
        age_ns = self.age_ns(record)
        if age_ns is not None and age_ns > self.limit_ns:
            self.stale_ns = now_ns
            self.held_ns = now_ns if self.holds(record) else self.held_ns

    def judge(self, now_ns: int) -> None:
        """Find the cause again."""
        cause = self._cause(now_ns)
        if cause:
            if row_of(cause) is not row_of(self.found) or now_ns - self.worded_ns > HELD_NS:
                self.found, self.worded_ns = cause, now_ns
            self.found_ns = now_ns
        elif now_ns - self.found_ns > RECENT_NS:
            self.found = NO_REASON

    def fault(self, now_ns: int) -> InputFault | None:
        """Return the fault, if there is one."""
        if not self.found:
            return None
        return InputFault(self.row, of_topic(self.reader.topic, self.found, ":"), _recent(self.held_ns, now_ns))

    def _cause(self, now_ns: int) -> Said:
        messages, limit_ns, key = list(self.messages), self.limit_ns, self.key
        if len(messages) < LEAST_MESSAGES or messages[-1][1] - messages[0][1] < LEAST_NS:
            return NO_REASON
        if now_ns - messages[-1][1] > SILENT_NS:
            return NO_REASON
        stale = _recent(self.stale_ns, now_ns)
        if stale and (cause := still_cause(messages, limit_ns, key) or backward_cause(messages, key)):
            return cause
        if cause := rate_cause(messages, limit_ns, key):
            return cause
        if not (stale and self.judge_key):
            return NO_REASON
        if cause := pace_cause(messages, self.judge_key):
            return cause
        late_ns = min((late_ns for late_ns, _ in self.late), default=0)
        late = reasons.MESSAGES_LATE.say(late_ms=late_ns / NS_PER_MS, key=key)
        return late if late_ns > limit_ns else NO_REASON


class InputPaces:
    """A listener that watches inputs. `faults` says what is wrong with each."""

    def __init__(self, inputs: Sequence[WatchedInput]) -> None:
        self._inputs, self._judged_ns = tuple(inputs), 0
        self._faults: list[InputFault] = []

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Take the messages of a tick; judge them every EVERY_NS."""
        now_ns = record.inputs.now_ns
        for input_ in self._inputs:
            input_.take(record)
        if now_ns - self._judged_ns < EVERY_NS:
            return
        self._judged_ns = now_ns
        for input_ in self._inputs:
            input_.judge(now_ns)
        faults = [input_.fault(now_ns) for input_ in self._inputs]
        self._faults = [fault for fault in faults if fault is not None]

    def faults(self) -> list[InputFault]:
        """Return the faults of the inputs."""
        return self._faults


def watched(config: Config, readers: Sequence[SoleReader]) -> list[WatchedInput]:
    """Return the inputs with an age limit among the readers."""
    found = []
    for reader in readers:
        kind, _, camera = reader.row.partition(" ")
        section = config.odometry
        if kind == "odometry":
            judge = "odometry.judge_late" if section.judge_late else ""
            limit = section.stale_ms, "odometry.stale_ms"
            found.append(_watched(reader, reader.row, *limit, judge, _odometry_age_ns, lambda record: True))
            continue
        judge = "dds.judge_late" if config.dds.judge_late else ""
        if kind == "camera":
            limit, age = (config.cameras.stale_ms, "cameras.stale_ms"), _camera_age_ns(camera)
            found.append(_watched(reader, reader.row, *limit, judge, age, _scan_is_stale(config)))
        elif kind == "scan":
            limit = config.limits.scan_stale_ms, "limits.scan_stale_ms"
            row = (
                "scan"
                if reader.topic in [ros_topic(config.dds, scan_source(name)) for name in config.scan.sources]
                else "limits_scan"
            )
            found.append(_watched(reader, row, *limit, judge, _scan_age_ns(row), lambda record: True))
    return found


def _watched(
    reader: SoleReader,
    row: str,
    limit_ms: float,
    key: str,
    judge: str,
    age_ns: Callable[[TickRecord], int | None],
    holds: Callable[[TickRecord], bool],
) -> WatchedInput:
    return WatchedInput(reader, row, round(limit_ms * NS_PER_MS), f"{key} = {limit_ms:g}", judge, age_ns, holds)


def _odometry_age_ns(record: TickRecord) -> int | None:
    fresh_ns = None if record.after is None else record.after.wheels.fresh_ns
    return None if fresh_ns is None else record.inputs.now_ns - fresh_ns


def _scan_age_ns(row: str) -> Callable[[TickRecord], int | None]:
    def age_ns(record: TickRecord) -> int | None:
        scan = record.scan if row == "scan" else record.limits_scan
        return None if scan.stamp_ns == NO_SCAN.stamp_ns else record.inputs.now_ns - scan.stamp_ns

    return age_ns


def _camera_age_ns(name: str) -> Callable[[TickRecord], int]:
    def age_ns(record: TickRecord) -> int:
        frame = record.inputs.color if name == "color" else record.inputs.depth.get(name)
        return record.inputs.now_ns - (0 if frame is None else frame.stamp_ns)

    return age_ns


def _scan_is_stale(config: Config) -> Callable[[TickRecord], bool]:
    limit_ns = round(config.limits.scan_stale_ms * NS_PER_MS)
    return lambda record: record.inputs.now_ns - record.limits_scan.stamp_ns > limit_ns


def _recent(then_ns: int | None, now_ns: int) -> bool:
    return then_ns is not None and now_ns - then_ns <= RECENT_NS


# ---- The causes. messages: stamp and arrival of each [ns]


def still_cause(messages: Sequence[tuple[int, int]], limit_ns: int, key: str) -> Said:
    """Return why the stamps do not advance within `limit_ns`, and what to do, or ""."""
    stamps = {stamp_ns for stamp_ns, _ in messages}
    if len(stamps) == 1:
        same = "0" if stamps == {0} else f"the same, {messages[0][0] / NS_PER_S:.3f} s"
        return reasons.STAMPS_SAME.say(stamp=same, key=key)
    newer = [messages[0], *(now for before, now in pairwise(messages) if now[0] > before[0])]
    steps = [(now[0] - before[0], now[1] - before[1]) for before, now in pairwise(newer)]
    if not steps or len(newer) > len(messages) / 2 or 2 * sum(lasts > limit_ns for _, lasts in steps) < len(steps):
        return NO_REASON
    step_s = sorted(step for step, _ in steps)[len(steps) // 2] / NS_PER_S
    return reasons.STAMPS_RARE.say(step_s=step_s, key=key)


def backward_cause(messages: Sequence[tuple[int, int]], key: str) -> Said:
    """Return that stamps go back again and again, or ""."""
    older = sum(now[0] < before[0] for before, now in pairwise(messages))
    return reasons.STAMPS_BACKWARD.say(key=key) if older >= BACKWARD * len(messages) else NO_REASON


def rate_cause(messages: Sequence[tuple[int, int]], limit_ns: int, key: str) -> Said:
    """Return that there are too few messages, or ""."""
    hz = (len(messages) - 1) * NS_PER_S / (messages[-1][1] - messages[0][1])
    needed_hz = NEEDED * NS_PER_S / limit_ns
    if hz >= ENOUGH * needed_hz:
        return NO_REASON
    return reasons.MESSAGES_FEW.say(hz=hz, needed_hz=needed_hz, key=key)


def pace_cause(messages: Sequence[tuple[int, int]], judge_key: str) -> Said:
    """Return that the stamps fall behind real time evenly, and what to do, or "".

    The quickest message of each quarter counts: a busy machine delays many messages, and never all.
    """
    began_ns, lasted_ns = messages[0][1], messages[-1][1] - messages[0][1]
    if lasted_ns < PACE_NS or any(after < before for (before, _), (after, _) in pairwise(messages)):
        return NO_REASON  # a clock that was set is another cause
    took: list[list[tuple[int, int]]] = [[] for _ in range(QUARTERS)]
    for stamp_ns, arrival_ns in messages:
        took[min(QUARTERS - 1, (arrival_ns - began_ns) * QUARTERS // lasted_ns)].append(
            (arrival_ns - stamp_ns, arrival_ns)
        )
    if not all(took):
        return NO_REASON
    quickest = [min(one) for one in took]
    lost_ns = quickest[-1][0] - quickest[0][0]
    even = all(2 * (QUARTERS - 1) * (after - before) > lost_ns for (before, _), (after, _) in pairwise(quickest))
    if lost_ns < LOST_NS or not even:
        return NO_REASON
    pace = 1.0 - lost_ns / (quickest[-1][1] - quickest[0][1])
    return reasons.CLOCK_SLOW.say(pace=pace, judge_key=judge_key)
