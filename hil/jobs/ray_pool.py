"""Drive jobs on a Ray cluster (extra `ray`), on several machines. The rows are the same as on this machine.

Each node needs the same version of this package. It also needs the maps, episode files and models of the command, under
the same paths. If a worker or node dies, another worker drives its task again.
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
"""Largest number of retries of a task after its worker or node died."""
CONNECT_S = 3.0
ANSWER_S = 15.0
"""Timeout for the answer of a cluster. A process that listens on the port but is not Ray never answers."""
AHEAD = 2
"""Tasks sent to the cluster per core; more tasks would only wait there."""
LARGEST_PORT = 65535
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def on_ray(drive: Callable[[SomeWork], Came], jobs: Sequence[SomeWork], address: str) -> Generator[Came, None, None]:
    """Yield the results of jobs from the cluster at an address. The address `local` starts a cluster on this machine.

    Raises OnboardError for a job that cannot be driven, or whose workers die more than `RETRIES` times.
    """
    ray = _import_ray(address)
    _join(ray, address)
    try:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_task)
        # Inside a list Ray passes a reference. Each worker loads its object once, not for each task (`_shared`).
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
    """Check within seconds that a campaign can run on a cluster.

    Raises MissingExtraError without Ray. Raises InputError for a bad address, or if no healthy cluster answers.
    """
    ray = _import_ray(address)
    if address == LOCAL:
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= LARGEST_PORT:
        raise InputError(f"--ray {address}: must be {LOCAL} or HOST:PORT of a cluster, of which this machine is a node")
    # Ray itself replaces a loopback address by this machine's address.
    target = ray.util.get_node_ip_address() if host in LOOPBACK else host
    try:
        socket.create_connection((target, int(port)), CONNECT_S).close()
    except OSError as error:
        raise InputError(f"--ray {address}: no answer ({error.strerror or error})") from error
    probe = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        subprocess.run(probe, timeout=ANSWER_S, check=True, capture_output=True)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"--ray {address}: listens, but did not answer as Ray within {ANSWER_S:g} s") from error
    except subprocess.CalledProcessError as error:
        raise InputError(f"--ray {address}: is not a healthy Ray cluster of version {ray.__version__}") from error


def _import_ray(address: str) -> Any:
    """Return the library `ray`. Set environment variables before the import: no usage statistics; `local`: loopback."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:
        # With 0, Ray takes 127.0.0.1 as this machine's address and binds its ports to loopback alone.
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
        # A bug in the task's code: the developer needs the traceback.
        raise
    except ray.exceptions.RayError as error:
        raise failed(job, f"lost by the cluster: {_first_line(error)}") from error
    if isinstance(answer, Failure):
        raise failed(job, answer.reason)
    return answer


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]


def _task(shared: list[Any], job: Work, code: str) -> Any:
    """Drive a job in a worker of the cluster; return its result or a `Failure`. code: digest of the caller's code."""
    if code_digest() != code:
        return Failure(f"{socket.gethostname()} has a different version of onboard from this machine")
    try:
        return _shared(shared[0])(job)
    except OnboardError as error:
        return Failure(str(error))


@functools.lru_cache(maxsize=1)
def _shared(reference: Any) -> Callable[[Any], Any]:
    """Return the campaign's function that drives a job. It is cached, so its loaded world remains between tasks."""
    import ray

    drive: Callable[[Any], Any] = ray.get(reference)
    return drive
