"""One fault of the table on the simulated clock: planned, driven, judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hil.eyes import without_cameras
from hil.faults.fault import Fault, Need
from hil.faults.musts import Run
from hil.faults.schedule import Scene, Schedule
from hil.faults.simulated import ONSET_S, TAIL_S, Site, at, drive
from hil.faults.verdict import Mode, Verdict, judge, not_run
from onboard.config import Config

ONLY_PROCESS = "only a real process can have it"


def changed(config: Config, sections: Mapping[str, Mapping[str, Any]]) -> Config:
    """Return the configuration with some values of some tables changed."""
    tables = {name: getattr(config, name).model_copy(update=dict(values)) for name, values in sections.items()}
    return config.model_copy(update=tables)


def in_simulation(fault: Fault, site: Site) -> Verdict:
    """Drive with a fault on the simulated clock and judge it. Raises InputError where the start is not free."""
    if fault.make is None:
        return not_run(fault, Mode.CLOCK, ONLY_PROCESS)
    given = without_cameras(site.config) if Need.SCANS in fault.needs else site.config
    config = changed(given, fault.sections)
    planned = fault.planned(Scene(config, site.mounts, site.seed), at(ONSET_S))

    def driven(schedule: Schedule) -> Run:
        return drive(site, config, schedule, ONSET_S + fault.lasts_s + TAIL_S, color=Need.COLOR in fault.needs)

    run = replace(driven(Schedule(planned)), onset_ns=planned[0].onset_ns, end_ns=planned[0].end_ns)
    return judge(fault, Mode.CLOCK, run, config, site.plant, lambda: driven(Schedule()))
