"""How many processes work, or which Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass

from hil.jobs.process_pool import in_processes
from hil.jobs.work import Execute, in_this_process
from onboard.values.errors import InputError


def executor(processes: int, ray: str | None) -> Execute:
    """Return what drives the jobs: this process, several, or the cluster at an address."""
    if ray is not None:
        # Only here, since Ray is an extra.
        from hil.jobs.ray_pool import on_ray

        return lambda drive, jobs: on_ray(drive, jobs, ray)
    if processes > 1:
        return lambda drive, jobs: in_processes(drive, jobs, processes)
    return in_this_process


@dataclass(frozen=True, slots=True)
class Hands:
    """Who drives: so many processes, or a cluster at an address."""

    jobs: int = 1
    ray: str | None = None


def checked_hands(jobs: int, ray: str | None) -> Hands:
    """Return who drives. Raises InputError when that cannot be, within seconds also for a cluster."""
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: must be at least 1")
    if ray is None:
        return Hands(jobs)
    if jobs != 1:
        raise InputError(f"--jobs {jobs} with --ray {ray}: give one of them, a cluster has its own number of workers")
    # Only here, since Ray is an extra.
    from hil.jobs.ray_pool import check_ray

    check_ray(ray)
    return Hands(ray=ray)
