"""Jobs on a real Ray cluster of two nodes on this machine's loopback, one of which is killed: nothing is lost."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Read when Ray is first imported: 127.0.0.1 is this machine's address, and nothing listens on another.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
pytest.importorskip("ray", reason="the extra `ray` is not installed")

from ray.cluster_utils import Cluster

from hil.evaluate.campaign import DriveResult, jobs_of
from hil.jobs.ray_pool import check_ray, on_ray
from hil.jobs.work import in_this_process
from onboard.values.errors import InputError, OnboardError
from tests.rigs.evaluate_rows import Stranded, made_up, refused
from tests.rigs.machine.waiting import until

JOBS = [*jobs_of("gdc1", range(6), 7), *jobs_of("willow", range(4), 7)]
HERE = {one.key: one for one in in_this_process(made_up, JOBS)}
NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False, "object_store_memory": 100_000_000}
SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
"""A dead node is found dead within seconds, not within half a minute."""

WORKER_S = 150.0
"""A worker has loaded the package and begun a job by then, also on a machine with other work."""


def by_key(driven: list[DriveResult]) -> dict[tuple[str, int], DriveResult]:
    assert len({one.key for one in driven}) == len(driven)
    return {one.key: one for one in driven}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))  # where the nodes find how to drive made-up jobs
        made = Cluster(initialize_head=True, head_node_args={**NODE, "_system_config": SOON})
        try:
            yield made
        finally:
            made.shutdown()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_with_a_node_killed_in_the_middle_nothing_is_lost(cluster: Any, tmp_path: Path) -> None:
    doomed = cluster.add_node(**NODE)
    with contextlib.closing(on_ray(Stranded(tmp_path, doomed.node_id), JOBS, cluster.address)) as coming:
        driven = [next(coming)]
        until(lambda: any(tmp_path.iterdir()), WORKER_S)
        cluster.remove_node(doomed, allow_graceful=False)
        driven += coming
    assert by_key(driven) == HERE
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_address_is_checked_and_a_bad_job_named(cluster: Any) -> None:
    check_ray(cluster.address)
    with pytest.raises(OnboardError, match=r"episode 2: the body does not fit at \(1.00, 2.00\)"):
        list(on_ray(refused, JOBS, cluster.address))


def test_who_is_not_there() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    with pytest.raises(InputError, match=f"--ray 127.0.0.1:{port}: no answer"):
        check_ray(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["nonsense", "host:", ":6379", "host:0", "host:70000", "ray://host:10001", "a b:x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InputError, match=f"--ray {address}: must be local or HOST:PORT"):
        check_ray(address)
