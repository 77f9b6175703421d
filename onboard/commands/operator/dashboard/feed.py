"""What a running robot publishes, as plain values for the page: one thread reads, and keeps only the newest."""

from __future__ import annotations

import io
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from onboard.config.config import Config
from onboard.drivers.dds.participant import ReceivedMessage, Wire, wait_until
from onboard.drivers.dds.ros_convert import pose_from_ros
from onboard.navigation.mission import state_word
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.recording.scene import WHY, clears, sentence_of, why
from onboard.service.publisher import AGE
from onboard.values.errors import DriverError
from onboard.values.messages import Pose
from onboard.values.reasons import TABLE, Row, rows_in, said_in

PERIOD_S = 0.05
SILENT_S = 3.0
"""The runtime publishes its state every second; after this time without one it counts as gone."""
NO_RUNTIME = "no runtime found"
START = "Start it: `onboard run`, or `systemctl start onboard`. This page then shows it."
BLIND, FREE = -1, -2
"""In place of a range [cm]: no camera looks there; a camera looked and saw nothing."""
MOST_CELLS, OCCUPIED = 25_000_000, 65
"""Of a map: 250 m by 250 m of 5 cm; and from what percentage on a cell is drawn as an obstacle."""
LINES, RARE = ("path", "plan", "arc"), ("path", "plan")
LEVELS = ("ok", "warning", "error", "stale")
FIGURES = ("missed_slots", "deadline_misses", "over_budget", "decision_p50_ms", "decision_p99_ms", "lateness_p99_ms",
           "lateness_max_ms", "ticks", "battery", "e_stop", "v_mps", "w_radps", "speed_limit_mps")  # fmt: skip
"""Values of `/diagnostics` that the page and `/metrics` show."""


class Feed:
    """Follows one robot. The methods may be called from any thread."""

    def __init__(
        self, config: Config, wire: Wire, notify: Callable[[dict[str, Any]], None] = lambda status: None
    ) -> None:
        """Open the readers and start the thread. Raises ConfigError, DriverError.

        It does not read the commands: the runtime would take that for a base that listens.
        notify: called by the thread with the status at each change of the state or its reasons
        """
        self._config, self._notify = config, notify
        self._on: dict[str, Callable[[Any], None]] = {
            "state": self._state, "drive": self._drive, "diagnostics": self._diagnostics, "scan": self._scan,
            "tf": self._tf, "footprint": self._footprint, "markers": self._markers,
            **{name: partial(self._line, name) for name in LINES},
        }  # fmt: skip
        self._readers = {name: wire.reader(name) for name in (*self._on, "map")}
        self._lock = threading.Lock()
        self._text, self._heard_s = "", -math.inf
        self._row: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._parts: list[dict[str, str]] = []
        self._seen: dict[str, Any] = {"scan": [], "markers": {}, **{name: [] for name in LINES}}
        self._shape: list[list[float]] = []
        self._building: dict[str, Any] | None = None
        self._picture = b""
        self._poses: dict[str, Pose] = {}
        self._sent: tuple[object, ...] = ()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        self._ended.set()
        self._thread.join()

    @property
    def live(self) -> bool:
        """Return whether the runtime was heard lately."""
        return time.monotonic() - self._heard_s < SILENT_S

    def heard(self, within_s: float) -> bool:
        """Return whether the runtime is heard within a time."""
        return wait_until(lambda: self.live, within_s)

    def drive(self) -> dict[str, str]:
        """Return the values of the newest `/onboard/drive` (`scene.drive_row`)."""
        with self._lock:
            return dict(self._row)

    def status(self) -> dict[str, Any]:
        """Return state and reasons; `sentence` and `clears` say why the robot stands and what clears it."""
        with self._lock:
            live, text, row = self.live, self._text, dict(self._row)
        if not live:
            silent = {"live": False, "state": NO_RUNTIME, "word": "silent", "why": []}
            return {**silent, "sentence": NO_RUNTIME, "clears": START}
        said = dict(said_in(text.removeprefix(state_word(text)).lstrip(":; ")))
        # a reason whose details have not been published yet follows a moment later
        rows = [one for one in self._why(text, row) if one in said or "[" not in one.general]
        return {
            "live": True,
            "state": text,
            "word": state_word(text),
            "why": [{"code": one.code, "sentence": said.get(one, one.general), "clears": one.clears} for one in rows],
            "sentence": sentence_of(text, rows),
            "clears": clears(rows),
        }

    def snapshot(self) -> dict[str, Any]:
        """Return all that the page draws at 5 Hz: status, pose, scan [cm], arc, markers, figures."""
        status = self.status()
        with self._lock:
            frames = self._config.dds
            base, odom = self._poses.get(frames.base_frame), self._poses.get(frames.odom_frame)
            seen = {name: value for name, value in self._seen.items() if name not in RARE}
            return {
                **status,
                **seen,
                "robot": self._config.robot.name,
                "odom_from_base": _numbers(base),
                "map_from_odom": _numbers(odom),
                "drive": dict(self._row),
                "figures": {name: self._values[name] for name in FIGURES if name in self._values},
                "ages_ms": {n.removesuffix(AGE): v for n, v in self._values.items() if n.endswith(AGE)},
                "parts": list(self._parts),
            }

    def shape(self) -> dict[str, Any]:
        """Return what changes rarely: driven and planned path in the odom frame, footprint, where `picture` lies."""
        with self._lock:
            return {**{name: self._seen[name] for name in RARE}, "footprint": self._shape, "map": self._building}

    def picture(self) -> bytes:
        """Return the map as PNG, obstacles alone: the rest is transparent; b"" without a map."""
        with self._lock:
            return self._picture

    def values(self) -> dict[str, str]:
        """Return all values of the newest `/diagnostics`, for `/metrics`."""
        with self._lock:
            return dict(self._values)

    # ---- the thread

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_S):
            try:
                came = {name: reader.take() for name, reader in self._readers.items()}
            except DriverError as error:
                sys.stderr.write(f"error: the page is no longer updated: {error}\n")
                return
            self._take(self._map, came.pop("map"))  # a large one takes a second to pack: not while pages wait
            with self._lock:
                for name, messages in came.items():
                    self._take(self._on[name], messages)
            latest = self._latest()
            if latest != self._sent:
                self._sent = latest
                self._notify(self.status())

    def _take(self, handle: Callable[[Any], None], messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            handle(message.sample)

    def _latest(self) -> tuple[object, ...]:
        return (self.live, state_word(self._text), *rows_in(self._text)) if self.live else (False,)

    def _why(self, text: str, row: dict[str, str]) -> tuple[Row, ...]:
        codes = [TABLE[code] for code in filter(None, row.get(WHY, "").split(", ")) if code in TABLE]
        return tuple(dict.fromkeys((*why(text, "none"), *codes)))

    def _state(self, sample: Any) -> None:
        self._text, self._heard_s = sample.data, time.monotonic()

    def _drive(self, sample: Any) -> None:
        for row in sample.status:
            self._row = {pair.key: pair.value for pair in row.values}

    def _diagnostics(self, sample: Any) -> None:
        rows = [row for row in sample.status if row.hardware_id == self._config.robot.name]
        if rows:
            self._values = {pair.key: pair.value for row in rows for pair in row.values}
            self._parts = [
                {"name": row.name, "level": LEVELS[min(row.level, 3)], "message": row.message} for row in rows
            ]

    def _scan(self, sample: Any) -> None:
        self._seen["scan"] = [
            BLIND if math.isnan(one) else FREE if not math.isfinite(one) else round(100.0 * one)
            for one in sample.ranges
        ]

    def _tf(self, sample: Any) -> None:
        for one in sample.transforms:
            at, turn = one.transform.translation, one.transform.rotation
            pose = pose_from_ros(_Posed(at, turn))  # type: ignore[arg-type]  # same names
            if _is_finite(pose):
                self._poses[one.child_frame_id] = pose

    def _map(self, sample: Any) -> None:
        info, wide = sample.info, sample.info.width
        cells = np.frombuffer(sample.data, np.int8)
        corner = pose_from_ros(info.origin)
        if cells.size != wide * info.height or not 0 < cells.size <= MOST_CELLS:
            return
        if not (math.isfinite(info.resolution) and _is_finite(corner)):
            return
        kinds = np.select([cells >= OCCUPIED, cells < 0], [np.uint8(2), np.uint8(1)], np.uint8(0))
        image = Image.fromarray(kinds.reshape(info.height, wide)[::-1], "P")
        image.putpalette([255, 255, 255, 128, 128, 128, 90, 100, 115])
        packed = io.BytesIO()
        image.save(packed, "PNG", transparency=bytes((0, 60, 255)))
        number = (self._building or {}).get("number", 0) + 1
        size = {"cell_m": info.resolution, "columns": wide, "rows": info.height}
        with self._lock:
            self._picture = packed.getvalue()
            self._building = {**size, "corner": _numbers(corner), "number": number}

    def _line(self, name: str, sample: Any) -> None:
        self._seen[name] = _points([one.pose.position for one in sample.poses])

    def _footprint(self, sample: Any) -> None:
        self._shape = _points(sample.polygon.points, 3)

    def _markers(self, sample: Any) -> None:
        made = {}
        for one in sample.markers:
            if points := _points(one.points or [one.pose.position]):
                made[one.ns] = {"frame": one.header.frame_id, "points": points}
        self._seen["markers"] = made


class _Posed:
    """A transform with the names of a pose."""

    def __init__(self, position: Any, orientation: Any) -> None:
        self.position, self.orientation = position, orientation


def _points(points: Sequence[Any], digits: int = 2) -> list[list[float]]:
    """Return x and y of the finite points: other programs may publish on these topics too."""
    return [[round(p.x, digits), round(p.y, digits)] for p in points if math.isfinite(p.x) and math.isfinite(p.y)]


def _is_finite(pose: Pose) -> bool:
    return all(map(math.isfinite, (pose.x_m, pose.y_m, pose.yaw_rad)))


def layer(grid: OccupancyGrid) -> dict[str, Any]:
    """Return where the picture of a grid lies in the map."""
    rows, columns = grid.percent.shape
    return {"cell_m": grid.cell_m, "columns": columns, "rows": rows, "corner": _numbers(grid.map_from_grid)}


def _numbers(pose: Pose | None) -> list[float] | None:
    return None if pose is None else [round(pose.x_m, 3), round(pose.y_m, 3), round(pose.yaw_rad, 4)]
