"""The provenance of a recording: engine, machine, processor."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from onboard.assembly.robot import session_of
from onboard.config.config import Config, PolicySection
from onboard.recording import provenance
from tests.rigs.devices.small_model import small_policy_files


def test_the_session_says_code_engine_libraries_machine_and_the_files_of_the_robot(tmp_path: Path) -> None:
    session = session_of(Config(policy={"model": str(small_policy_files(tmp_path))}))
    assert session["code_sha256"] == provenance.code_sha256()
    assert session["engine"] == f"onnxruntime {version('onnxruntime')}"
    assert session["libraries"].startswith(f"numpy {version('numpy')}, numba {version('numba')}, ")
    assert session["machine"].startswith(platform.node())
    assert session["machine"].endswith(f"Python {platform.python_version()}")
    assert session["processor"] == provenance.processor()
    assert len(session["model_sha256"]) == 64
    assert (session["mounts"], session["plant"]) == tuple(
        getattr(Config().robot, name).read_text() for name in ("mounts", "plant")
    )


#   policy                                       engine
ENGINES = [
    (PolicySection(model="reactive"), ""),
    (PolicySection(model="m.onnx", engine="tensorrt"), "tensorrt of unknown version"),
]


@pytest.mark.parametrize(("section", "line"), ENGINES)
def test_an_engine_is_named_as_far_as_it_is_known(
    section: PolicySection, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_known(library: str) -> str:
        raise provenance.PackageNotFoundError(library)

    monkeypatch.setattr(provenance, "version", none_known)
    assert provenance.engine(section, "reactive") == line


def test_the_hash_of_the_code_follows_every_file_and_its_name(tmp_path: Path) -> None:
    hashes = set()
    for name, text in (("a.py", "x = 1\n"), ("a.py", "x = 2\n"), ("b.py", "x = 2\n"), ("sub/c.py", "")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        hashes.add(provenance.code_sha256(tmp_path))
    assert len(hashes) == 4
    (tmp_path / "notes.txt").write_text("not code")
    assert provenance.code_sha256(tmp_path) in hashes


#   device tree        cpuinfo                                     named in the line
HARDWARE = [
    ("NVIDIA Jetson AGX Orin\0", None, "NVIDIA Jetson AGX Orin"),
    (None, "processor\t: 0\nmodel name\t: AMD EPYC\n\nmodel name\t: other\n", "AMD EPYC"),
    (None, "processor\t: 0\n", ""),
    (None, None, ""),
]


@pytest.mark.parametrize(("board", "cpus", "named"), HARDWARE)
def test_a_machine_says_its_board_or_its_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str | None, cpus: str | None, named: str
) -> None:
    for name, text in (("BOARD", board), ("CPUS", cpus)):
        path = tmp_path / name
        monkeypatch.setattr(provenance, name, path)
        if text is not None:
            path.write_text(text)
    line = provenance.machine()
    assert line.split(platform.machine())[0].removeprefix(platform.node()).strip() == named
    assert "  " not in line


X86 = "processor\t: 0\nvendor_id\t: V\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: EPYC\nflags\t\t: fma avx2 sse\n\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n\n"

#   one machine, another                                                                 compute the same
CORES = [
    (X86, X86.replace("fma avx2 sse", "sse fma avx2"), True),
    (X86, X86 + X86.replace("processor\t: 0", "processor\t: 1"), True),
    (X86, X86.replace("processor", "cpu MHz\t: 2400.1\nbogomips\t: 4800.2\nmicrocode\t: 0xa1\nprocessor"), True),
    (X86, X86.replace("avx2", "avx2 avx512f"), False),
    (X86, X86.replace("model\t\t: 17", "model\t\t: 1"), False),
    (X86, ARM, False),
    (ARM, ARM.replace("0xd42", "0xd40"), False),
]


@pytest.mark.parametrize(("one", "other", "same"), CORES)
def test_two_machines_compute_the_same_where_their_cores_are_of_one_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str, same: bool
) -> None:
    cpus, lines = tmp_path / "CPUS", []
    monkeypatch.setattr(provenance, "CPUS", cpus)
    for text, host in ((one, "robot-1"), (other, "desk")):
        cpus.write_text(text)
        monkeypatch.setattr(platform, "node", lambda host=host: host)
        monkeypatch.setattr(platform, "platform", lambda host=host: f"kernel of {host}")
        lines.append(provenance.processor())
    assert (lines[0] == lines[1]) is same


def test_where_the_system_says_nothing_of_its_cores_the_host_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "CPUS", tmp_path / "none")
    assert provenance.processor().startswith(platform.node())
