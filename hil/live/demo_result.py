"""Result of a demo: its files, the result from the JSON files of both processes, the picture and the summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hil.drive.picture import Drawing, save_picture
from hil.live.child_process import END_S
from hil.live.goal_tour import Leg, judged
from hil.physics.collision_world import Body
from hil.physics.free_space import FreeSpace, shortest_path
from onboard.values.errors import OnboardError
from onboard.values.messages import Pose


class Files:
    """Paths of the files of a demo run. The constructor deletes old results and the old picture."""

    def __init__(self, folder: Path, label: str) -> None:
        self.config = folder / f"{label}.toml"
        self.sim = folder / f"{label}.sim.json"
        self.run = folder / f"{label}.run.json"
        self.sim_log = folder / f"{label}.sim.log"
        self.run_log = folder / f"{label}.run.log"
        self.picture = folder / f"{label}.png"
        for old in (self.sim, self.run, self.picture):
            old.unlink(missing_ok=True)


def result_of(space: FreeSpace, body: Body, files: Files, legs: list[Leg]) -> dict[str, Any]:
    """Return the demo's result from the JSON files of both processes, and write the picture."""
    sim, run = told(files.sim), told(files.run)
    goals = judged(legs, np.array(sim["trace"]), sim["lived_ns"])
    _draw(space, body, files, legs, sim)
    return {
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


def _draw(space: FreeSpace, body: Body, files: Files, legs: list[Leg], sim: dict[str, Any]) -> None:
    """Draw the driven path and the shortest paths, from the first start to the last goal."""
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
    )
    save_picture(space.world, drawing, files.picture)


def told(file: Path) -> dict[str, Any]:
    """Return the JSON result that a process wrote at its exit. Raises OnboardError if it is missing or invalid."""
    try:
        told: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise OnboardError(
            f"{file}: not written: the process did not end within {END_S:g} s, see {file.with_suffix('.log').name}"
        ) from error
    return told


def summary(result: dict[str, Any]) -> str:
    """Return the result as text for the operator."""
    goals = result["goals"]
    outcome = "reached" if result["reached"] else f"NOT reached ({result['state']})"
    if len(goals) > 1:
        outcome = f"{sum(goal['reached'] for goal in goals)} of {len(goals)} goals reached, the last: {outcome}"
    return (
        f"{outcome}: {result['distance_to_goal_m']:.2f} m from the goal after {result['time_s']:.1f} s and "
        f"{result['path_m']:.1f} m (shortest {result['shortest_path_m']:.1f} m), {result['contacts']} contacts\n"
        f"{result['decisions']} decisions, p50 {result['decision_ms']['p50']:.0f} ms, "
        f"p99 {result['decision_ms']['p99']:.0f} ms; {result['ticks']} ticks, {result['missed_slots']} slots missed\n"
        f"picture    {result['picture']}\nrecording  {result['recording'] or 'none'}\n"
    )
