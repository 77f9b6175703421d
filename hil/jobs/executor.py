"""Choose the workers: a number of processes, or a Ray cluster."""

from __future__ import annotations

from hil.jobs.process_pool import in_processes
from hil.jobs.work import Execute, in_this_process
from onboard.values.errors import InputError


def executor(processes: int, ray: str | None) -> Execute:
    """Return the function that drives the jobs: in this process, in several processes, or on a cluster.

    ray: address of the cluster, None without a cluster
    """
    if ray is not None:
        # Import only here, since Ray is an extra.
        from hil.jobs.ray_pool import on_ray

        return lambda drive, jobs: on_ray(drive, jobs, ray)
    if processes > 1:
        return lambda drive, jobs: in_processes(drive, jobs, processes)
    return in_this_process


def check_workers(jobs: int, ray: str | None) -> None:
    """Raise InputError if the processes, or the cluster, cannot be used; also for a cluster within seconds."""
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: must be at least 1")
    if ray is None:
        return
    if jobs != 1:
        raise InputError(
            f"--jobs {jobs} with --ray {ray}: use one of them, because a cluster has its own number of workers"
        )
    # Import only here, since Ray is an extra.
    from hil.jobs.ray_pool import check_ray

    check_ray(ray)
