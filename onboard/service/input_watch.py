"""What the robot waits for: rows of `/diagnostics` about its scans, and about every input that is missing.

The rows are made once a second. A tick only keeps its record and counts scans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import structlog

from onboard.config.config import Config, ScanSource
from onboard.counters import Counters
from onboard.drivers.dds.topics import Topic, ros_topic, scan_source, topic, type_of
from onboard.navigation.mission import State, state_word
from onboard.navigation.odometry import OdometryState
from onboard.perception.scan_fusion import NO_SCAN
from onboard.safety.limits import Reason
from onboard.state import TickRecord
from onboard.system.waiting import FIRST_S, Waiting
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import Diagnostic, InputFault
from onboard.values.messages import BINS, CameraHealth, Scan
from onboard.values.reasons import NO_REASON, Said, refused_goal, row_of

log = structlog.get_logger()

OK, WARNING, ERROR = 0, 1, 2
NS_PER_MS = 1_000_000
WAITING = "waiting"
"""Name of the row about all inputs; its message is NOTHING or what is missing."""
NOTHING = "for nothing"
SCANS_IN_TIME = 2.0
"""Scans that must be received within `limits.scan_stale_ms`, so that one may be late."""
ENOUGH = 0.9
"""Share of the needed rate; the rest allows for measurement error."""
WINDOW_NS = 3 * NS_PER_S
BLIND = frozenset({Reason.BLIND_AHEAD.value, Reason.LOOKING.value})
TURNING_NS, SINCE_NS = 5 * NS_PER_S, 3 * NS_PER_S
"""A robot turns for ever if blind bins held it within the second, and it has not driven ahead for the first."""


class Arrivals:
    """Rate of the scans of one table over the last WINDOW_NS."""

    def __init__(self) -> None:
        self._newest_ns, self._count = NO_SCAN.stamp_ns, 0
        self._counts: deque[tuple[int, int]] = deque()

    def note(self, scan: Scan) -> None:
        """Count a scan with a new stamp."""
        if scan.stamp_ns != self._newest_ns:
            self._newest_ns, self._count = scan.stamp_ns, self._count + 1

    def rate_hz(self, now_ns: int) -> float | None:
        """Return the scans a second; None before the window is full."""
        self._counts.append((now_ns, self._count))
        while len(self._counts) > 2 and now_ns - self._counts[1][0] >= WINDOW_NS:
            self._counts.popleft()
        began_ns, before = self._counts[0]
        span_ns = now_ns - began_ns
        return None if span_ns < WINDOW_NS else (self._count - before) * NS_PER_S / span_ns


class InputWatch:
    """A listener that judges the inputs. `rows` are callables for the diagnostics."""

    def __init__(
        self,
        config: Config,
        cameras: Callable[[], Sequence[CameraHealth]],
        published: Callable[[Topic | str], bool],
        dropped: Callable[[], Mapping[str, int]],
        ready_made: Callable[[], tuple[int, Said]],
        withheld: Callable[[], Sequence[InputFault]] = tuple,
    ) -> None:
        """Judge no input yet.

        published:  whether another process publishes a topic
        dropped:    counts of dropped messages by reason
        ready_made: returns the level of blind bins of ready-made scans, and why they are blind
        withheld:   returns why received messages are not used, by the row of their input
        """
        self._config, self._cameras, self._published, self._dropped = config, cameras, published, dropped
        self._ready_made, self._withheld = ready_made, withheld
        self._tables: dict[str, ScanSource] = {"scan": config.scan}
        if config.limits_scan is not None:
            self._tables["limits_scan"] = config.limits_scan
        self._arrivals = {name: Arrivals() for name in self._tables}
        self._record: TickRecord | None = None
        self._faults: tuple[InputFault, ...] = ()
        self._held_ns: int | None = None
        self._blind_ns = 0
        self._blind, self._refused = NO_REASON, NO_REASON
        self._waiting = Waiting(lambda line: log.warning("waiting", note=line), self._now_s)

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Keep the tick, and count its scans."""
        self._record = record
        self._arrivals["scan"].note(record.scan)
        if "limits_scan" in self._arrivals:
            self._arrivals["limits_scan"].note(record.limits_scan)
        self._note_blind(record)

    def rows(self) -> list[Callable[[], Diagnostic]]:
        """Return a function for each row: one for each scan, then the row WAITING."""
        return [*(partial(self._scan_row, name) for name in self._tables), self._waiting_row]

    def faults(self) -> Sequence[InputFault]:
        """Return what the published state names: why the robot turns for ever, and what was missing for FIRST_S, as of
        the newest row WAITING.
        """
        name = "limits_scan" if "limits_scan" in self._tables else "scan"
        return (*((InputFault(name, self._blind),) if self._blind else ()), *self._faults)

    def _note_blind(self, record: TickRecord) -> None:
        """Keep why bins are blind while the robot does not drive ahead for it, and after the end of such a drive; the
        first words.
        """
        now_ns = record.inputs.now_ns
        if record.reason in BLIND:
            self._blind_ns, self._held_ns = now_ns, self._held_ns or now_ns
        if self._blind and row_of(record.state) is reasons.NO_PROGRESS:
            self._held_ns = None
            return
        driving = state_word(record.state) in (State.NAVIGATING.value, State.RECOVERING.value)
        if record.command.v_mps > 0.0 or not driving:
            self._held_ns = None
        turns = self._held_ns is not None and now_ns - self._held_ns > TURNING_NS
        if not turns or now_ns - self._blind_ns > SINCE_NS:
            self._blind = NO_REASON
        elif not self._blind:
            blind, section = int((~record.limits_scan.seen).sum()), self._config.limits_scan or self._config.scan
            why = "no camera looks there (onboard check-config shows the sectors)"
            of_cameras = reasons.BINS_BLIND.say(blind=blind, bins=BINS, why=why)
            self._blind = self._ready_made()[1] if section.topic else of_cameras

    def _scan_row(self, name: str) -> Diagnostic:
        record, section = self._record, self._tables[name]
        if record is None:
            return (name, OK, "no tick yet", {})
        scan = record.scan if name == "scan" else record.limits_scan
        hz = self._arrivals[name].rate_hz(record.inputs.now_ns)
        trouble = self._trouble(section, scan, hz)
        blind = int((~scan.seen).sum())
        values = {"rate_hz": None if hz is None else round(hz, 1), "blind_bins": blind}
        if trouble:
            return (name, WARNING if row_of(trouble) is reasons.SCAN_SLOW else ERROR, trouble, values)
        level, why = self._ready_made() if section.topic else (OK, f"{blind} bins blind")
        return (name, level, f"{hz or 0.0:.1f} scans/s, {why}", values)

    def _trouble(self, section: ScanSource, scan: Scan, hz: float | None) -> Said:
        """Return why there is no scan, or why there are too few; "" if all is well."""
        record, limit_ms = self._record, self._config.limits.scan_stale_ms
        assert record is not None
        needed_hz = SCANS_IN_TIME * 1e3 / limit_ms
        age_ms = (record.inputs.now_ns - scan.stamp_ns) / NS_PER_MS
        if scan.stamp_ns == NO_SCAN.stamp_ns:
            return reasons.SCAN_NONE.say(sources=self._sources(section))
        if age_ms > limit_ms:
            return reasons.SCAN_STALE.say(age_ms=age_ms, limit_ms=limit_ms, sources=self._sources(section))
        if hz is not None and hz < ENOUGH * needed_hz:
            return reasons.SCAN_SLOW.say(hz=hz, needed_hz=needed_hz, sources=self._sources(section))
        return NO_REASON

    def _sources(self, section: ScanSource) -> str:
        """Return the sources of a scan, and what is wrong with each."""
        lidars = "; ".join(self._lidar(scan_source(name, cloud)) for name, cloud in section.sources.items())
        health = {camera.camera: camera for camera in self._cameras()}
        if section.topic:
            lost = [name for name in section.cameras if name in health and not health[name].working]
            return "; ".join([lidars, *(f"{self._camera(name)}, {health[name].reason}" for name in lost)])
        used = [name for name in section.cameras or health if name in health and name != "color"]
        bad = [f"{self._camera(name)}, {health[name].reason}" for name in used if not health[name].working]
        if not used:
            return "the configuration has no depth camera and no scan.topic"
        return "; ".join(bad) or f"images of {', '.join(self._camera(name) for name in used)} are slow"

    def _lidar(self, row: Topic) -> str:
        refused = self._dropped().get(f"refused {ros_topic(self._config.dds, row)}", 0)
        more = f", {refused} scans were refused (the log says why: scan_refused)" if refused else ""
        return f"{self._where(row)}{more}"

    def _camera(self, name: str) -> str:
        if self._config.cameras.source_of(name) != "dds":
            return f"camera {name}"
        row = topic(f"{name}/depth/image")
        return self._where(row) if not self._published(row) else ros_topic(self._config.dds, row)

    def _where(self, row: Topic) -> str:
        """Return topic and type, and whether it has no publisher."""
        dds = self._config.dds
        nobody = "" if self._published(row) else ": no publisher"
        return f"{ros_topic(dds, row)} ({type_of(dds, row)}){nobody}"

    def _waiting_row(self) -> Diagnostic:
        missing = "; ".join(self._missing())
        waited_s = self._waiting.note(missing, "inputs" if missing else "")
        level = ERROR if missing and waited_s >= FIRST_S else OK
        self._faults = (InputFault(WAITING, reasons.WAITING.say(missing=missing)),) if level else ()
        return (WAITING, level, missing or NOTHING, {"waited_s": round(waited_s, 1)})

    def _missing(self) -> Iterator[str]:
        """Yield each missing input and its source. No ages: the published state must not change with them."""
        record, config = self._record, self._config
        if record is None:
            return
        wheels = None if record.after is None else record.after.wheels
        fresh_ns = None if wheels is None else wheels.fresh_ns
        if config.odometry.input == "dds" and wheels is not None:
            stale_ms = config.odometry.stale_ms
            age_ms = None if fresh_ns is None else (record.inputs.now_ns - fresh_ns) / NS_PER_MS
            if age_ms is None or age_ms > stale_ms:
                why = self._unused("odometry") or self._refusal(wheels)
                yield f"odometry ({why or ('none yet' if age_ms is None else 'stale')}): {self._where(topic('odom'))}"
        if config.dds.e_stop_required and record.inputs.e_stop and not self._published("e_stop"):
            yield f"e-stop (dds.e_stop_required): {self._where(topic('e_stop'))}"
        for name, section in self._tables.items():
            scan = record.scan if name == "scan" else record.limits_scan
            if self._trouble(section, scan, None):
                old = "none yet" if scan.stamp_ns == NO_SCAN.stamp_ns else "stale"
                names = (ros_topic(config.dds, scan_source(source)) for source in section.sources)
                why = next(filter(None, (self._unused("scan", one) for one in names)), "")
                # Beside a second publisher of any input the inbox withholds all scans and images.
                if any(row_of(fault.reason) is reasons.SECOND_PUBLISHER for fault in self._withheld()):
                    old = "withheld until the second publisher is gone"
                yield f"{name} ({why or old}): {self._sources(section)}"

    def _unused(self, part: str, name: str = "") -> str:
        """Return why received messages of an input are not used, "" if all are. name: its topic"""
        said = (fault.reason for fault in self._withheld() if fault.row == part and name in fault.reason)
        return next(said, "").removeprefix(refused_goal(NO_REASON))

    def _refusal(self, wheels: OdometryState) -> str:
        """Return why the newest odometry was refused, in the words of the first of its kind; "" if it was not."""
        if wheels.refused_ns is None or wheels.refused_ns < (wheels.arrival_ns or 0):
            self._refused = NO_REASON
        elif row_of(wheels.refusal) is not row_of(self._refused):
            self._refused = wheels.refusal
        return self._refused

    def _now_s(self) -> float:
        return 0.0 if self._record is None else self._record.inputs.now_ns / NS_PER_S


def causes(faults: Sequence[InputFault]) -> list[InputFault]:
    """Return the faults, each once: without that of row WAITING if the fault of another input says why the robot
    stands, and without those that a refused goal names.
    """
    known = any(
        fault.holds or (fault.standing and not fault.row.startswith((WAITING, "command", "topic "))) for fault in faults
    )
    reported = {fault.reason for fault in faults}
    return [
        fault for fault in faults if not (known and fault.row == WAITING) and refused_goal(fault.reason) not in reported
    ]


def missing_in(message: str) -> str:
    """Return what the message of the row WAITING names as missing, "" for nothing."""
    return "" if message == NOTHING else message.removeprefix(reasons.WAITING.say(missing=""))
