"""Jobs driven on a Ray cluster (extra `ray`): the same jobs, the same rows, on more machines than one.

Each node needs this package in the same version, and the maps, episode files and models that the command names under
the same paths. A task whose worker or node dies is driven again elsewhere.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

from hil.jobs.code_digest import code_digest
from hil.jobs.process_pool import Failure
from hil.jobs.work import Came, SomeWork, Work, failed
from onboard.values.errors import InputError, MissingExtraError, OnboardError

LOCAL = "local"
RETRIES = 10
"""So often a task is driven again because its worker or node has died."""
CONNECT_S = 3.0
ANSWER_S = 15.0
"""A cluster answers within seconds; what only listens on its port never does."""
AHEAD = 2
"""Tasks given to the cluster for each of its cores; more would only wait there."""
LARGEST_PORT = 65535
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def on_ray(drive: Callable[[SomeWork], Came], jobs: Sequence[SomeWork], address: str) -> Generator[Came, None, None]:
    """Drive jobs on the cluster at an address, or on one started here for `local`.

    Raises OnboardError for a job that cannot be driven, or whose workers die more than `RETRIES` times.
    """
    ray = _import_ray(address)
    _join(ray, address)
    try:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_task)
        # Inside a list it goes as a reference, which each worker follows once and not for every task.
        shared = [ray.put(drive)]
        waiting = iter(jobs)
        pending: dict[Any, SomeWork] = {}
        ahead = max(1, AHEAD * int(ray.cluster_resources().get("CPU", 1)))
        while True:
            while len(pending) < ahead and (job := next(waiting, None)) is not None:
                pending[task.remote(shared, job, code_digest())] = job
            if not pending:
                return
            for reference in ray.wait(list(pending))[0]:
                yield _answer(ray, reference, pending.pop(reference))
    finally:
        ray.shutdown()


def check_ray(address: str) -> None:
    """Raise within seconds when a campaign could not run there: no Ray, a bad address, or nobody who answers."""
    ray = _import_ray(address)
    if address == LOCAL:
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= LARGEST_PORT:
        raise InputError(f"--ray {address}: must be {LOCAL} or HOST:PORT of a cluster, of which this machine is a node")
    # Ray itself takes a loopback address for this machine's own.
    target = ray.util.get_node_ip_address() if host in LOOPBACK else host
    try:
        socket.create_connection((target, int(port)), CONNECT_S).close()
    except OSError as error:
        raise InputError(f"--ray {address}: does not answer ({error.strerror or error})") from error
    probe = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        subprocess.run(probe, timeout=ANSWER_S, check=True, capture_output=True)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"--ray {address}: listens, but did not answer as Ray within {ANSWER_S:g} s") from error
    except subprocess.CalledProcessError as error:
        raise InputError(f"--ray {address}: is not a healthy Ray cluster of version {ray.__version__}") from error


def _import_ray(address: str) -> Any:
    """Return the library, told before it is loaded to tell nobody, and with `local` to keep to loopback."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:
        # Off, Ray takes 127.0.0.1 as this machine's address, and so binds its ports to loopback alone.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    return ray


def _join(ray: Any, address: str) -> None:
    quiet = {"configure_logging": True, "logging_level": "ERROR", "log_to_driver": False}
    start = {"include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address=address, **quiet, **start)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise OnboardError(f"--ray {address}: {_first_line(error)}") from error


def _answer(ray: Any, reference: Any, job: Work) -> Any:
    try:
        answer = ray.get(reference)
    except ray.exceptions.RayTaskError:
        # A mistake of ours in the task: its traceback is worth more than a line.
        raise
    except ray.exceptions.RayError as error:
        raise failed(job, f"lost by the cluster: {_first_line(error)}") from error
    if isinstance(answer, Failure):
        raise failed(job, answer.reason)
    return answer


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]


def _task(shared: list[Any], job: Work, code: str) -> Any:
    """Drive one job; runs in a worker of the cluster."""
    if code_digest() != code:
        return Failure(f"{socket.gethostname()} has another version of onboard than the machine that asks")
    try:
        return _shared(shared[0])(job)
    except OnboardError as error:
        return Failure(str(error))


@functools.lru_cache(maxsize=1)
def _shared(reference: Any) -> Callable[[Any], Any]:
    """Return the campaign's way of driving, which keeps a loaded world from task to task."""
    import ray

    drive: Callable[[Any], Any] = ray.get(reference)
    return drive
