"""A soak of the real process from its options to what a person reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from hil.faults.stand import Drive
from hil.soak.live import LiveSoak
from hil.soak.report import growth_line
from hil.target.errands import choose_place
from hil.world import Body
from onboard.assembly import check_files
from onboard.config import Config
from onboard.messages import Pose
from onboard.motion import load_plant
from onboard.policies import require_engine
from onboard.signals import Signals


def soak_processes(
    console: Console, config: Config, until_s: float, seed: int, map_name: str, out: Path
) -> dict[str, Any]:
    """Drive as processes for so long, or until a signal comes, and return what was found. Raises OnboardError."""
    check_files(config)
    require_engine(config)
    place = choose_place(map_name, seed, None, Body(config.robot.footprint_radius_m, config.robot.height_m))
    goal = Pose(*place.episodes[0].goal_xy_m, 0.0)
    drive = Drive(config, ["--map", map_name, "--seed", str(seed)], goal)
    with Signals() as signals:
        soak = LiveSoak(drive, place, load_plant(config.robot.plant), out.resolve())
        signals.stop_with(soak.stop)
        soak.run(until_s, lambda it: console.print(live_line(it.result()), markup=False, soft_wrap=True))
    result = soak.result()
    for line in live_lines(result):
        console.print(line, markup=False, soft_wrap=True)
    return result


def passed_live(result: Mapping[str, Any]) -> bool:
    """Return whether it drove to goals, long enough to say what grows, no rule was broken and nothing grew."""
    drove = result["reached"] > 0 and bool(result["growth"])
    return drove and not result["violations"] and all(row["held"] for row in result["growth"])


def live_line(result: Mapping[str, Any]) -> str:
    """Return where it stands."""
    held = result["samples"][-1] if result["samples"] else {"memory_mib": 0.0, "files": 0, "threads": 0}
    return (
        f"{result['wall_s'] / 60.0:.1f} min: {result['commands']} commands, {result['goals']} goals, "
        f"{result['reached']} reached; {sum(result['faults'].values())} faults; {held['memory_mib']:.0f} MiB, "
        f"{held['files']} files, {held['threads']} threads"
    )


def live_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was found as lines of a console."""
    yield live_line(result)
    yield "faults: " + (", ".join(f"{count} {name}" for name, count in result["faults"].items()) or "none")
    yield from (growth_line(row) for row in result["growth"])
    if not result["growth"]:
        yield "too short to say whether anything grows"
    yield f"{sum(result['violations'].values())} violations"
    yield from result["broken"]
