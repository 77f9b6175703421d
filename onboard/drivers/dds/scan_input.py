"""Ready-made scans over DDS, from a laser or a simulator.

A scan's stamp is the time of the tick that took it minus its latency (`sender_clock.py`); the sender's clock may differ
from this machine's. A scan with a latency above `LATE_NS` is refused. With `dds.judge_late` off no scan is late.

A scan whose header stamp does not increase is frozen or repeated, and is refused. After a step back of more than
`sender_clock.NEW_CLOCK_NS` the sender has a new clock, as does a recording that is played again. After a smaller step
back the third scan in a row is accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import structlog

from onboard.config.config import NoReturn
from onboard.drivers.dds.participant import InputWire, Messages
from onboard.drivers.dds.ros_convert import ns_from_time, rays_from_ros
from onboard.drivers.dds.ros_types import LaserScan
from onboard.drivers.dds.sender_clock import SenderClock
from onboard.drivers.dds.sole_writer import SoleReader
from onboard.drivers.dds.topics import ros_topic, scan_source
from onboard.perception.collision import Look, look
from onboard.perception.laser_scan import Turn, blind_reason, joined, mostly_blind, scan_of_rays
from onboard.values.errors import InputError
from onboard.values.interfaces import Diagnostic, InputFault
from onboard.values.messages import BINS, Scan, Twist

log = structlog.get_logger()

OK, WARNING = 0, 1
AHEAD = Twist(1.0, 0.0)

NS_PER_MS = 1_000_000
LATE_NS = 300 * NS_PER_MS
"""The default staleness limit of camera images."""


class UntimelyError(InputError):
    """A scan is refused for its stamp."""


class DdsScans:
    """The newest scan of each configured topic, or the newest turn in several messages.

    After a refused scan the last accepted scan becomes stale.
    """

    def __init__(
        self,
        wire: InputWire[Messages],
        topics: Mapping[str, npt.NDArray[np.float64] | None],
        no_return: Mapping[str, Collection[NoReturn]] = MappingProxyType({}),
    ) -> None:
        """Open the readers. Raises ConfigError, DriverError.

        topics:    base_from_laser of each topic, (4, 4); None: its scans are in the base frame
        no_return: values of each topic that mean no return; a topic that is missing has none
        """
        self._section, self._topics, self._no_return = wire.section, topics, no_return
        self._turns: dict[str, Turn] = {}
        self.readers = {name: SoleReader(wire, scan_source(name)) for name in topics}
        self._newest: dict[str, Scan] = {}
        self._clocks = {name: SenderClock() for name in topics}
        self._refused: Counter[str] = Counter()
        self._unusable: dict[str, str] = {}
        self._mostly_blind: dict[str, str] = {}

    def take(self, now_ns: int) -> Mapping[str, Scan]:
        """Return the newest scan of each topic so far, without waiting. Raises DriverError when the link is gone."""
        for name, reader in self.readers.items():
            for message in reader.take(now_ns):
                self._judge(name, message.sample, now_ns)
        return dict(self._newest)

    def refused(self) -> Mapping[str, int]:
        """Return how many scans so far were refused, by topic, for diagnostics."""
        return {f"refused {ros_topic(self._section, scan_source(name))}": self._refused[name] for name in self.readers}

    def faults(self) -> list[InputFault]:
        """Return why the robot cannot drive by the scans though messages are received, by topic.

        Either the first refusal since the last scan, or why most bins are blind, by the first such message. Of stamps
        and latency `input_pace.py` says what is wrong.
        """
        refused = {name: f"scan refused: {reason}" for name, reason in self._unusable.items()}
        return [
            InputFault("scan", f"{reason}: topic {ros_topic(self._section, scan_source(name))}")
            for name, reason in (self._mostly_blind | refused).items()
        ]

    def diagnostic(self) -> Diagnostic:
        """Return the row about the newest scans: a warning where a bin is blind into which the robot may drive."""
        blind, turns = self.blind(), self._turns.values()
        values = {"blind_bins": max((int((~turn.scan.seen).sum()) for turn in turns), default=BINS)}
        ahead = any(look(turn.scan, AHEAD, 0.0) is not Look.SEEN for turn in turns)
        return ("scan", WARNING if ahead else OK, "; ".join(blind.values()) or "all bins are seen", values)

    def blind(self) -> Mapping[str, str]:
        """Return why bins of the newest scans are blind, by topic; only those with blind bins."""
        found = {}
        for name, turn in self._turns.items():
            if reason := blind_reason(turn.scan, turn.rays, self._no_return.get(name, ())):
                found[name] = f"{reason}: topic {ros_topic(self._section, scan_source(name))}"
        return found

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return sum(reader.undecodable for reader in self.readers.values())

    def _judge(self, name: str, sample: LaserScan, now_ns: int) -> None:
        """Keep a valid scan, seen from the base; count any other, and log the first."""
        frame, base = sample.header.frame_id.lstrip("/"), self._section.base_frame
        stamp_ns, clock = ns_from_time(sample.header.stamp), self._clocks[name]
        try:
            base_from_laser = None if frame == base else self._topics[name]
            if base_from_laser is None and frame != base:
                raise InputError(f"it is in frame {frame!r}, not {base!r}: write the pose of its laser (scan.laser)")
            rays = rays_from_ros(sample)
            scan = scan_of_rays(rays, now_ns, base_from_laser, self._no_return.get(name, ()))
            late_ns = clock.take(stamp_ns, now_ns)
            if late_ns is None:
                raise UntimelyError(f"its stamp {stamp_ns} ns is not later than the last one's, {clock.newest_ns} ns")
            late_ns = late_ns if self._section.judge_late else 0
            if late_ns > LATE_NS:
                raise UntimelyError(
                    f"it is {late_ns / NS_PER_MS:.0f} ms later than the quickest one, limit {LATE_NS // NS_PER_MS} ms; "
                    "for a sender whose clock does not keep real time (a simulator) set dds.judge_late = false"
                )
            scan = replace(scan, stamp_ns=now_ns - late_ns, arrival_ns=now_ns)
            self._turns[name] = joined(self._turns.get(name), rays, scan, base_from_laser)
            self._newest[name] = self._turns[name].scan
            self._unusable.pop(name, None)
            self._note_blind(name)
        except InputError as error:
            self._refused[name] += 1
            newest = self._newest.get(name)
            stale = newest is None or now_ns - newest.stamp_ns > LATE_NS
            if stale and not isinstance(error, UntimelyError):
                self._unusable.setdefault(name, str(error))
            if self._refused[name] == 1:
                log.warning("scan_refused", topic=ros_topic(self._section, scan_source(name)), reason=str(error))

    def _note_blind(self, name: str) -> None:
        """Keep the reason while most bins in the view of the laser are blind."""
        turn, no_return = self._turns[name], self._no_return.get(name, ())
        if not mostly_blind(turn.scan, turn.rays):
            self._mostly_blind.pop(name, None)
        elif name not in self._mostly_blind:
            self._mostly_blind[name] = blind_reason(turn.scan, turn.rays, no_return)
