"""Result of a demo: its files, the result from the JSON files of both processes, the picture and the summary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.picture import Drawing, ScanSnapshot, save_picture
from hil.live.child_process import END_S
from hil.live.goal_tour import Leg, leg_results, row_at
from hil.physics.collision_world import Body
from hil.physics.free_space import FreeSpace, shortest_path
from hil.sensors.image_size import mounts_text, reduced, sizes_text
from onboard.assembly.robot import used_mounts
from onboard.config.config import Config
from onboard.config.mounts import completed_text, load_mounts
from onboard.config.toml_file import read_toml
from onboard.config.toml_text import as_toml
from onboard.navigation.mission import drives
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.errors import OnboardError, naming
from onboard.values.messages import Pose

LATE_SHARE = 10
"""A drive that runs out of time with one of so many ticks missed was too slow because of the load."""
HEAD = "# Written by `onboard-hil demo`: everything that is in effect.\n"


def write_config(file: Path, config: Config) -> None:
    """Write a demo's configuration into its folder, which may be new. Raises OnboardError."""
    write_text(file, as_toml(config, HEAD))


def write_text(file: Path, text: str) -> None:
    """Write a file into a folder, which may be new. Raises OnboardError."""
    with naming(file.parent, "written", OnboardError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


class Files:
    """Paths of the files of a demo run: configuration, picture, log and result of each process.

    The constructor writes the configuration and deletes the old picture and old results. Raises OnboardError.

    sizes: line for the operator about images of another size than the robot's; "" without any
    """

    def __init__(
        self, folder: Path, label: str, config: Config, processes: Sequence[str], full_size: bool = False
    ) -> None:
        """full_size: keep the robot's mounts; otherwise large images get a mounts file with smaller ones."""
        self._stem = str(folder / label)
        self.config = Path(f"{self._stem}.toml")
        self.picture = Path(f"{self._stem}.png")
        self.sizes = ""
        config = self._with_whole_mounts(config)
        if not full_size:
            config = self._with_small_images(config)
        write_config(self.config, config)
        for old in (self.picture, *map(self.result, processes)):
            old.unlink(missing_ok=True)

    def _with_whole_mounts(self, config: Config) -> Config:
        """Return the configuration with mounts that the runtime need not take from the simulated robot."""
        text = completed_text(config.robot.mounts)
        if text == config.robot.mounts.read_text(encoding="utf-8"):
            return config
        file = Path(f"{self._stem}.mounts.toml")
        write_text(file, text)
        return config.model_copy(update={"robot": config.robot.model_copy(update={"mounts": file})})

    def _with_small_images(self, config: Config) -> Config:
        """Return the configuration with mounts of smaller images, if they are large. The mounts file says so."""
        given = load_mounts(config.robot.mounts)
        used = used_mounts(config, given)
        small = reduced(used)
        if small is used:
            return config
        file, text = Path(f"{self._stem}.mounts.toml"), sizes_text(given, small)
        self.sizes = f"images   rendered smaller, with the same view: {text}; --full-size renders every pixel\n"
        head = f"# {config.robot.mounts} with smaller simulated images of the same view: {text}\n"
        write_text(file, mounts_text(read_toml(config.robot.mounts), small, head))
        return config.model_copy(update={"robot": config.robot.model_copy(update={"mounts": file})})

    def log(self, process: str) -> Path:
        """Return the path of the log file of a process."""
        return Path(f"{self._stem}.{process}.log")

    def result(self, process: str) -> Path:
        """Return the path of the JSON result of a process."""
        return Path(f"{self._stem}.{process}.json")


def result_of(
    space: FreeSpace, body: Body, files: Files, legs: list[Leg], scans: Sequence[tuple[int, Any]]
) -> dict[str, Any]:
    """Return the demo's result from the JSON files of both processes, and write the picture.

    scans: capture time (CLOCK_MONOTONIC [ns]) and sensor_msgs/LaserScan, in their order
    """
    sim, run = read_result(files.result("sim")), read_result(files.result("run"))
    goals = leg_results(legs, np.array(sim["trace"]), sim["lived_ns"])
    result = {
        "reached": all(goal["reached"] for goal in goals),
        "state": legs[-1].state,
        "distance_to_goal_m": goals[-1]["distance_to_goal_m"],
        "time_s": round(sum(leg.time_s for leg in legs), 2),
        "path_m": round(sim["path_m"], 3),
        "shortest_path_m": round(sum(leg.episode.geodesic_m for leg in legs), 3),
        "goals": goals,
        "contacts": sim["contacts"],
        "bumps": sim["bumps"],
        "ticks": run["ticks"],
        "missed_slots": run["missed_slots"],
        "decisions": run["decisions"],
        "deadline_misses": run["deadline_misses"],
        "over_budget": run["over_budget"],
        "decision_ms": {name: run["decision_ms"][name] for name in ("p50", "p99")},
        "delay_error_ms": {name: run["delay_error_ms"][name] for name in ("p50", "p99")},
        "commands_by_reason": run["commands_by_reason"],
        "policy": run["policy"],
        "recording": run["recording"],
        "picture": str(files.picture),
    }
    _draw(space, body, files, legs, sim, scans, result)
    return result


def _draw(
    space: FreeSpace,
    body: Body,
    files: Files,
    legs: list[Leg],
    sim: dict[str, Any],
    scans: Sequence[tuple[int, Any]],
    result: dict[str, Any],
) -> None:
    """Draw the driven path, the shortest paths from the first start to the last goal, and three scans."""
    outcome = "reached" if result["reached"] else result["state"]
    policy = result["policy"].removesuffix(".onnx").rsplit("/", 1)[-1]
    ends = [((leg.episode.start.x_m, leg.episode.start.y_m), leg.episode.goal_xy_m) for leg in legs]
    ways = [way for start, goal in ends if (way := shortest_path(space, start, goal)) is not None]
    drawing = Drawing(
        episode=legs[0].episode,
        path=np.array(sim["trace"])[:, 1:],
        end=Pose(*sim["pose"]),
        shortest=np.concatenate(ways) if ways else None,
        contacts=sim["contact_points"],
        body=body,
        goals=[leg.episode.goal_xy_m for leg in legs],
        title=(
            f"{policy} on {space.world.name}: {outcome}, {result['time_s']:.1f} s",
            f"{result['path_m']:.1f} m driven, shortest {result['shortest_path_m']:.1f} m, "
            f"{result['contacts']} contacts",
        ),
        moments=moments_of(scans, np.array(sim["trace"]), sim["lived_ns"]),
    )
    save_picture(space.world, drawing, files.picture)


def moments_of(scans: Sequence[tuple[int, Any]], trace: npt.NDArray[np.float64], lived_ns: int) -> list[ScanSnapshot]:
    """Return the scans after a quarter, half and three quarters of the drive, placed by the true trace.

    trace, lived_ns: as for `goal_tour.leg_results`
    """
    moments = []
    for quarter in (1, 2, 3) if len(scans) > 3 else ():
        captured_ns, scan = scans[quarter * len(scans) // 4]
        row = trace[row_at(trace, captured_ns - lived_ns)]
        pose = Pose(float(row[1]), float(row[2]), float(row[3]))
        ranges_m = np.asarray(scan.ranges)
        bearings_rad = pose.yaw_rad + scan.angle_min + scan.angle_increment * np.arange(len(ranges_m))
        seen = np.isfinite(ranges_m) & (ranges_m < scan.range_max)
        points = np.column_stack((np.cos(bearings_rad), np.sin(bearings_rad)))[seen] * ranges_m[seen, None]
        moments.append(
            ScanSnapshot((captured_ns - scans[0][0]) / NS_PER_S, pose, points + np.array([pose.x_m, pose.y_m]))
        )
    return moments


def read_result(file: Path) -> dict[str, Any]:
    """Return the JSON result that a process wrote at its exit. Raises OnboardError if it is missing or invalid."""
    try:
        values: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise OnboardError(
            f"{file}: not written: the process did not end within {END_S:g} s, see {file.with_suffix('.log').name}"
        ) from error
    return values


def by_load(state: str) -> bool:
    """Return whether a drive ended in this state because the machine had no time for the runtime or the simulation."""
    return reasons.row_of(state.partition(reasons.JOIN)[0]) in (reasons.ENGINE_SILENT, reasons.INPUT_LOST)


def too_busy(result: dict[str, Any]) -> bool:
    """Return whether the goal was not reached because this machine was too busy."""
    late = result["missed_slots"] * LATE_SHARE > result["ticks"]
    return not result["reached"] and (by_load(result["state"]) or (late and drives(result["state"])))


def summary(result: dict[str, Any]) -> str:
    """Return the result as text for the operator."""
    goals = result["goals"]
    over = "; the time limit was reached, --limit raises it" if drives(result["state"]) else ""
    outcome = "reached" if result["reached"] else f"NOT reached ({result['state']}{over})"
    if len(goals) > 1:
        outcome = f"{sum(goal['reached'] for goal in goals)} of {len(goals)} goals reached, the last: {outcome}"
    slow = result["over_budget"] * 2 > result["decisions"] > 0 or result["missed_slots"] * 2 > result["ticks"]
    slow = slow or too_busy(result)
    advice = "this machine was too busy for the runtime: close other programs (`top` shows them)\n" if slow else ""
    return (
        f"{outcome}: {result['distance_to_goal_m']:.2f} m from the goal after {result['time_s']:.1f} s and "
        f"{result['path_m']:.1f} m (shortest {result['shortest_path_m']:.1f} m), {result['contacts']} contacts\n"
        f"{result['decisions']} decisions, p50 {result['decision_ms']['p50']:.0f} ms, "
        f"p99 {result['decision_ms']['p99']:.0f} ms; {result['ticks']} ticks, {result['missed_slots']} slots missed\n"
        f"{advice}"
        f"picture    {result['picture']}\nrecording  {result['recording'] or 'none'}\n"
    )
