"""A reload to a configuration that this machine cannot start is refused, under a real systemd and in its sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from onboard.config.config import DdsSection
from tests.onboard.service.test_systemd_systemd import CONFIG, FEW, FORWARD
from tests.rigs.machine.service_base import SCAN_TOPIC, Base
from tests.rigs.machine.systemd_rig import START_S, Machine, machine, missing
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=f"no systemd of our own here: {missing()}"),
]

#   in [record], in [dds], words in the journal
REFUSED = [
    ("", 'interface = "eht0"\n', "there is no 'eht0'"),
    ("", 'security = "nokeys"\n', "nokeys"),
    ('directory = "/etc/onboard/recordings"\n', "", "Read-only file system"),
]


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, Base, int]]:
    """Yield a service that drives a base, the base, and their domain."""
    domain = free_domain()
    with (
        machine(tmp_path_factory.mktemp("systemd"), {CONFIG.lstrip("/"): configuration(domain)}, "reload") as service,
        Base(DdsSection(domain=domain)) as base,
    ):
        base.looks, base.operator = True, FORWARD
        service.run("systemctl", "start", "onboard.service")
        until(lambda: base.driven, START_S)
        yield service, base, domain


def configuration(domain: int, record: str = "", dds: str = "") -> str:
    return (
        '[robot]\nname = "served"\n[cameras]\nsource = "none"\ncolor = "none"\n'
        f"[scan]\ntopic = {json.dumps(SCAN_TOPIC)}\n[record]\n{record}[dds]\ndomain = {domain}\n{dds}"
    )


@pytest.mark.parametrize(("record", "dds", "words"), REFUSED, ids=["interface", "keys", "folder outside its sandbox"])
def test_the_old_one_keeps_running(record: str, dds: str, words: str, driven: tuple[Machine, Base, int]) -> None:
    service, base, domain = driven
    pid, heard = service.main_pid(), len(base.heard)
    service.write(CONFIG, configuration(domain, record, dds))
    try:
        assert service.tried("systemctl", "reload", "onboard.service").returncode != 0
    finally:
        service.write(CONFIG, configuration(domain))
    until(lambda: len(base.heard) > heard + FEW, START_S)
    assert (service.main_pid(), service.is_state("active")) == (pid, True)
    said = [str(entry["MESSAGE"]) for entry in service.journal("-u", "onboard.service", "--since=-5min")]
    assert any(words in line for line in said), said[-20:]
