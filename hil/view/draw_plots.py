"""Plots and texts next to the 3-D view: commands, states and reasons over time, diagnostics, log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import rerun as rr

from onboard.commands.cli import markdown_table
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.tick_types import TickMessage
from onboard.navigation.mission import state_word
from onboard.values.messages import Twist

NS_PER_MS = 1e6
SPEEDS, TURNS = "commands/v", "commands/w"
LANES = "states"
WORDS = "words"
SUMMARY = "summary"
FIGURES = "figures"
#   series        colour, width, interpolation; drawn in this order, so that wanted lies on top of sent
SERIES: Mapping[str, tuple[tuple[int, int, int], float, Literal["Linear", "StepAfter"]]] = {
    "measured": ((140, 200, 130), 1.5, "Linear"),
    "operator": ((200, 120, 255), 1.5, "StepAfter"),
    "sent": ((70, 150, 255), 4.0, "StepAfter"),
    "wanted": ((255, 170, 50), 1.5, "StepAfter"),
}
#   first word of the state   colour
STATE_COLORS = {
    "idle": (110, 110, 120),
    "navigating": (60, 150, 230),
    "recovering": (230, 170, 50),
    "reached": (70, 190, 100),
    "stopped": (220, 70, 60),
}
LEVELS = {0: "INFO", 1: "WARN", 2: "ERROR"}


class FigurePainter:
    """Draws one robot's numbers and texts."""

    def __init__(self, recording: rr.RecordingStream) -> None:
        self._recording = recording
        self._lanes: dict[str, str] = {}
        self._levels: dict[str, tuple[int, str]] = {}
        self._summary: dict[str, str] = {}
        recording.log([LANES, "state"], _configured(STATE_COLORS), static=True)
        for name, (color, width, joined) in SERIES.items():
            for axis, unit in ((SPEEDS, "v"), (TURNS, "w")):
                line = rr.SeriesLines(
                    names=[f"{unit} {name}"], colors=[color], widths=[width], interpolation_mode=joined
                )
                recording.log(f"{axis}/{name}", line, static=True)

    def twist(self, name: str, twist: Twist) -> None:
        """Add to a series of twists: sent, wanted, measured or operator."""
        self._recording.log(f"{SPEEDS}/{name}", rr.Scalars(twist.v_mps))
        self._recording.log(f"{TURNS}/{name}", rr.Scalars(twist.w_radps))

    def state(self, text: str) -> None:
        """Show a published state such as "stopped: e_stop"; the lane has its first word."""
        if self._lanes.get("told") != text:
            self._lanes["told"] = text
            self._word(f"state: {text}")
            self._summarise("state", text)
        self._lane("state", state_word(text))

    def diagnostics(self, sample: ros.DiagnosticArray) -> None:
        """Plot the numbers, log changes of level, and update the summary."""
        for row in sample.status:
            numbers = {pair.key: _number(pair.value) for pair in row.values}
            for key, number in numbers.items():
                if number is not None:
                    self._recording.log([FIGURES, row.hardware_id, row.name, key], rr.Scalars(number))
            self._level(row)
            if row.name.endswith("command"):
                self._command_row(row.message, numbers)
            if row.name.endswith("pose"):
                away = numbers.get("goal_distance_m")
                self._summarise("goal", "-" if away is None else f"{away:.2f} m away")

    def tick(self, tick: TickMessage) -> None:
        """Show the fields of a tick that only the recording has."""
        self.twist("wanted", Twist(*tick.wanted))
        self.words("reason", tick.reason)
        for name, stage_ns in zip(tick.stages, tick.stage_ns, strict=True):
            self._recording.log([FIGURES, "tick", f"{name}_ms"], rr.Scalars(stage_ns / NS_PER_MS))
        late_ms = (tick.start_ns - tick.deadline_ns) / NS_PER_MS
        self._recording.log([FIGURES, "tick", "late_ms"], rr.Scalars(late_ms))
        if tick.missed:
            self._recording.log([FIGURES, "tick", "missed"], rr.Scalars(tick.missed))
        if tick.acted:
            took = rr.Scalars(tick.decision_elapsed_ns / NS_PER_MS)
            self._recording.log([FIGURES, "tick", "decision_ms"], took)
        for event in tick.events:
            self._word(event)

    def _command_row(self, message: str, numbers: Mapping[str, float | None]) -> None:
        v_mps, w_radps = numbers.get("wanted_v_mps"), numbers.get("wanted_w_radps")
        if v_mps is not None and w_radps is not None:
            self.twist("wanted", Twist(v_mps, w_radps))
        self.words("reason", message)

    def _lane(self, name: str, value: str) -> None:
        """Show a value in a lane until the next value."""
        if self._lanes.get(name) != value:
            self._lanes[name] = value
            self._recording.log([LANES, name], rr.StateChange(state=value))

    def words(self, name: str, value: str) -> None:
        """Show a value in a lane and in the summary, and log its changes."""
        if self._lanes.get(name) != value:
            self._word(f"{name}: {value}")
            self._summarise(name, value)
        self._lane(name, value)

    def _word(self, text: str, level: str = "INFO") -> None:
        self._recording.log(WORDS, rr.TextLog(text, level=level))

    def _level(self, row: ros.DiagnosticStatus) -> None:
        if self._levels.get(row.name, (0, "")) == (row.level, row.message):
            return
        changed = self._levels.get(row.name, (0, ""))[0] != row.level
        self._levels[row.name] = row.level, row.message
        if changed:
            self._word(f"{row.hardware_id} {row.name}: {row.message}", LEVELS.get(row.level, "INFO"))

    def _summarise(self, name: str, value: str) -> None:
        if self._summary.get(name) == value:
            return
        self._summary[name] = value
        text = markdown_table(("", ""), [(f"**{key}**", shown) for key, shown in self._summary.items()], words=2)
        self._recording.log(SUMMARY, rr.TextDocument(text, media_type=rr.MediaType.MARKDOWN))


def _configured(colors: Mapping[str, tuple[int, int, int]]) -> rr.StateConfiguration:
    return rr.StateConfiguration(values=list(colors), labels=list(colors), colors=list(colors.values()))


def _number(text: str) -> float | None:
    """Return a diagnostic value as a finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
