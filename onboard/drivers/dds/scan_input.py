"""Ready-made scans over DDS, from a laser, several lidars or a simulator.

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

from onboard.config.config import LIDARS, NoReturn, ScanSection
from onboard.drivers.dds.participant import InputWire, Messages
from onboard.drivers.dds.ros_convert import ages_from_ros, ns_from_time, points_from_ros, rays_from_ros
from onboard.drivers.dds.ros_types import LaserScan, PointCloud2
from onboard.drivers.dds.sender_clock import SenderClock
from onboard.drivers.dds.sole_writer import SoleReader
from onboard.drivers.dds.topics import ros_topic, scan_source
from onboard.perception.collision import SectorView, view_sector
from onboard.perception.laser_scan import Rays, Turn, blind_reason, fused, joined, mostly_blind, scan_of_rays
from onboard.perception.point_cloud import points_at_last, scan_of_points
from onboard.values import reasons
from onboard.values.errors import InputError
from onboard.values.interfaces import InputFault
from onboard.values.messages import BINS, STOP, Scan, Twist
from onboard.values.reasons import Said, of_topic
from onboard.values.reasons import joined as joined_reasons

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

    The lidars of `section` are one scan, `LIDARS`. After a refused scan the last accepted scan becomes stale.
    """

    def __init__(
        self,
        wire: InputWire[Messages],
        topics: Mapping[str, npt.NDArray[np.float64] | None],
        no_return: Mapping[str, Collection[NoReturn]] = MappingProxyType({}),
        section: ScanSection | None = None,
    ) -> None:
        """Open the readers. Raises ConfigError, DriverError.

        topics:    base_from_laser of each topic, (4, 4); None: its scans are in the base frame
        no_return: values of each topic that mean no return; a topic that is missing has none
        section:   the fused lidars, and the heights of obstacles
        """
        self._fused_of = {} if section is None else section.sources if section.topic == LIDARS else {}
        self._heights = section
        self._twist = STOP
        rows = {name: scan_source(name, self._fused_of.get(name, False)) for name in topics}
        self._names = {name: ros_topic(wire.section, row) for name, row in rows.items()}
        self._section, self._topics, self._no_return = wire.section, topics, no_return
        self._turns: dict[str, Turn] = {}
        self.readers = {name: SoleReader(wire, row) for name, row in rows.items()}
        self._newest: dict[str, Scan] = {}
        self._parts: dict[str, Scan] = {}
        self._clocks = {name: SenderClock() for name in topics}
        self._refused: Counter[str] = Counter()
        self._unusable: dict[str, str] = {}
        self._mostly_blind: dict[str, Said] = {}

    def take(self, now_ns: int, twist: Twist = STOP) -> Mapping[str, Scan]:
        """Return the newest scan of each topic so far, without waiting. Raises DriverError when the link is gone.

        twist: of the base, which moves while a laser turns
        """
        self._twist = twist
        for name, reader in self.readers.items():
            for message in reader.take(now_ns):
                self._judge(name, message.sample, now_ns)
        parts = [scan for name, scan in self._parts.items() if name in self._fused_of]
        if any(scan.arrival_ns == now_ns for scan in parts):
            self._newest[LIDARS] = fused(parts, now_ns - LATE_NS)
        return dict(self._newest)

    def refused(self) -> Mapping[str, int]:
        """Return how many scans so far were refused, by topic, for diagnostics."""
        return {f"refused {self._names[name]}": self._refused[name] for name in self.readers}

    def faults(self) -> list[InputFault]:
        """Return why the robot cannot drive by the scans though messages are received, by topic.

        Either the first refusal since the last scan, or why most bins are blind, by the first such message. Of stamps
        and latency `input_pace.py` says what is wrong.
        """
        refused = {name: reasons.SCAN_REFUSED.say(why=why) for name, why in self._unusable.items()}
        return [
            InputFault("scan", of_topic(self._names[name], reason, ":"))
            for name, reason in (self._mostly_blind | refused).items()
        ]

    def judged(self) -> tuple[int, Said]:
        """Return a warning where a bin is blind into which the robot may drive, and why bins are blind."""
        ahead = any(view_sector(scan, AHEAD, 0.0) is not SectorView.SEEN for scan in self._newest.values())
        return WARNING if ahead else OK, joined_reasons(*self.blind().values()) or reasons.ALL_SEEN.say()

    def blind(self) -> Mapping[str, Said]:
        """Return why bins of the newest scans are blind, by topic; only those with blind bins."""
        found = {}
        whole = LIDARS in self._newest and bool(self._newest[LIDARS].seen.all())
        for name, turn in self._turns.items():
            if whole and name in self._fused_of:
                continue
            if reason := blind_reason(turn.scan, turn.rays, self._no_return.get(name, ())):
                found[name] = of_topic(self._names[name], reason, ":")
        for name, scan in self._parts.items():
            if not (whole or name in self._turns or scan.seen.all()):
                found[name] = of_topic(self._names[name], _pointless(scan), ":")
        return found

    @property
    def undecodable(self) -> int:
        """Undecodable messages so far."""
        return sum(reader.undecodable for reader in self.readers.values())

    def _judge(self, name: str, sample: LaserScan | PointCloud2, now_ns: int) -> None:
        """Keep a valid scan, seen from the base; count any other, and log the first."""
        frame, base = sample.header.frame_id.lstrip("/"), self._section.base_frame
        stamp_ns, clock = ns_from_time(sample.header.stamp), self._clocks[name]
        try:
            base_from_laser = None if frame == base else self._topics[name]
            if base_from_laser is None and frame != base:
                key = "scan.lasers" if name in self._fused_of else "scan.laser"
                raise InputError(f"it is in frame {frame!r}, not {base!r}: write the pose of its laser ({key})")
            scan, rays = self._converted(name, sample, now_ns, base_from_laser)
            late_ns = clock.take(stamp_ns, now_ns)
            if late_ns is None:
                raise UntimelyError(f"its stamp {stamp_ns} ns is not later than the last one's, {clock.newest_ns} ns")
            late_ns = late_ns if self._section.judge_late else 0
            if late_ns > LATE_NS:
                raise UntimelyError(
                    f"it is {late_ns / NS_PER_MS:.0f} ms later than the fastest one, limit {LATE_NS // NS_PER_MS} ms; "
                    "for a sender whose clock does not keep real time (a simulator) set dds.judge_late = false"
                )
            scan = replace(scan, stamp_ns=now_ns - late_ns, arrival_ns=now_ns)
            if rays is not None:
                self._turns[name] = joined(self._turns.get(name), rays, scan, base_from_laser)
                scan = self._turns[name].scan
                self._note_blind(name)
            elif scan.seen.any():
                self._mostly_blind.pop(name, None)
            else:
                self._mostly_blind.setdefault(name, _pointless(scan))
            (self._parts if name in self._fused_of else self._newest)[name] = scan
            self._unusable.pop(name, None)
        except InputError as error:
            self._refused[name] += 1
            newest = self._parts.get(name, self._newest.get(name))
            stale = newest is None or now_ns - newest.stamp_ns > LATE_NS
            if stale and not isinstance(error, UntimelyError):
                self._unusable[name] = str(error)
            if self._refused[name] == 1:
                log.warning("scan_refused", topic=self._names[name], reason=str(error))

    def _converted(
        self, name: str, sample: LaserScan | PointCloud2, now_ns: int, pose: npt.NDArray[np.float64] | None
    ) -> tuple[Scan, Rays | None]:
        """Return the scan of a message, and the rays of a laser. Raises InputError."""
        if self._heights is not None and isinstance(sample, PointCloud2):
            points_m, age_s = points_from_ros(sample), ages_from_ros(sample)
            pose = np.eye(4) if pose is None else pose
            if age_s is not None and self._twist != STOP:
                points_m = points_at_last(points_m, pose, self._twist, age_s)
            return scan_of_points(points_m, now_ns, pose, self._heights), None
        assert isinstance(sample, LaserScan)
        rays, section = rays_from_ros(sample), self._heights
        band_m = None if section is None or name not in self._fused_of else (section.z_min_m, section.z_max_m)
        return scan_of_rays(rays, now_ns, pose, self._no_return.get(name, ()), self._twist, band_m), rays

    def _note_blind(self, name: str) -> None:
        """Keep the reason while most bins in the view of the laser are blind."""
        turn, no_return = self._turns[name], self._no_return.get(name, ())
        if not mostly_blind(turn.scan, turn.rays):
            self._mostly_blind.pop(name, None)
        elif name not in self._mostly_blind:
            self._mostly_blind[name] = blind_reason(turn.scan, turn.rays, no_return)


def _pointless(scan: Scan) -> Said:
    """Return how many bins of a cloud are blind."""
    return reasons.BINS_BLIND.say(blind=int((~scan.seen).sum()), bins=BINS, why="no point of the cloud is in them")
