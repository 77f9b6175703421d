"""What else must hold under some faults, as checks of a whole run."""

from __future__ import annotations

import itertools

from hil.faults.monitor import GRACE_TICKS, ROUNDING
from hil.faults.musts import Run
from onboard.config import Config
from onboard.geometry import distance
from onboard.messages import STOP
from onboard.scheduler import NS_PER_S

STEP_SLACK_M = 0.6
"""An honest fix, after some seconds without one, corrects the place by less; what leaps here leaps by metres."""
LATE_S = 0.3
SETTLED_S = 0.5


def place_stays(run: Run, config: Config) -> str:
    """Check that where the robot believes to be does not leap from one tick to the next."""
    most_mps = config.odometry.max_speed_mps
    lived = [step for step in run.steps if step.now_ns >= run.onset_ns and step.filtered is not None]
    for before, now in itertools.pairwise(lived):
        if before.filtered is None or now.filtered is None:
            continue
        leapt_m = distance(before.filtered, now.filtered)
        if leapt_m > STEP_SLACK_M + most_mps * (now.now_ns - before.now_ns) / NS_PER_S:
            return f"where it believes to be leaps by {leapt_m:.2f} m in slot {now.slot}"
    return ""


def backs_off_bounded(run: Run, config: Config) -> str:
    """Check that it backed off no more often than it may, and never faster."""
    section = config.recovery
    tries, backing = 0, False
    for step in run.steps:
        tries += step.backing and not backing
        backing = step.backing
        if step.command.v_mps < -section.backward_mps and step.backing:
            return f"it backs off at {-step.command.v_mps:.2f} m/s, must at {section.backward_mps:g}"
    return f"it backed off {tries} times, must at most {section.tries}" if tries > section.tries else ""


def misses_counted(run: Run, config: Config) -> str:
    """Check that slots were missed, counted, and not caught up in a burst."""
    during = run.during
    missed = sum(step.missed for step in during)
    wanted = int(LATE_S * config.rates.control_hz) - GRACE_TICKS
    if missed < wanted:
        return f"{missed} slots were counted as missed, must be {wanted} at least"
    slots = [step.slot for step in during]
    return "" if len(set(slots)) == len(slots) else "a slot was lived twice"


def no_contact(run: Run, config: Config) -> str:
    """Check that nothing was touched, where that is known."""
    return f"{run.contacts} contacts" if run.contacts else ""


def mostly_stands(run: Run, config: Config) -> str:
    """Check that from half a second on it stands in half of the ticks at least."""
    during = run.during[round(SETTLED_S * config.rates.control_hz) :]
    standing = sum(step.stands for step in during)
    return "" if 2 * standing >= len(during) else f"it stands in {standing} of {len(during)} ticks, must in half"


def slows_after_a_miss(run: Run, config: Config) -> str:
    """Check that a decision after a first miss half as much is wanted. Limits may have held the robot back before."""
    during, rates = run.during, config.rates
    due = rates.ticks_per_decision + rates.delay_ticks + GRACE_TICKS
    most = max((abs(step.wanted.v_mps) for step in during[:due]), default=0.0) / 2
    worst = max((abs(step.wanted.v_mps) for step in during[due + rates.ticks_per_decision :]), default=0.0)
    return f"{worst:.2f} m/s are wanted after a miss, must be {most:.2f} at most" if worst > most + ROUNDING else ""


def stands_in_between(run: Run, config: Config) -> str:
    """Check that from half a second on it stands, for want of a scan, in a fifth of the ticks at least."""
    during = run.during[round(SETTLED_S * config.rates.control_hz) :]
    standing = sum(step.stands and step.reason == "stale_scan" for step in during)
    return "" if 5 * standing >= len(during) else f"it stands in {standing} of {len(during)} ticks, must in a fifth"


def late_operator_holds(run: Run, config: Config) -> str:
    """Check that late commands of an operator, who never says stop, come and are taken for a stop, none for itself."""
    dead_man_ns = round(config.limits.teleop_dead_man_s * NS_PER_S)
    known = [(step.now_ns, step.teleop) for step in run.during if step.teleop is not None]
    in_force = [teleop for now_ns, teleop in known if now_ns - teleop.arrival_ns <= dead_man_ns]
    if not in_force:
        return "no late command of an operator holds the robot"
    obeyed = sum(teleop.twist != STOP for teleop in in_force)
    return (
        f"a late command of an operator is obeyed in {obeyed} of {len(in_force)} ticks, must in none" if obeyed else ""
    )


def goal_refused(run: Run, config: Config) -> str:
    """Check that a goal was refused for its age."""
    return (
        "" if any("goal refused: it came" in step.state for step in run.during) else "no goal was refused for its age"
    )
