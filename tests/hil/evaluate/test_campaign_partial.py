"""The file of a campaign under way: what it keeps, what it goes on from, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.evaluate.campaign import PartialResults, jobs_of
from onboard.values.errors import InputError
from tests.rigs.evaluate_rows import made_up

CONFIGURATION = {"policy": "reactive", "seed": 1, "sets": [{"name": "gdc1", "count": 5}]}
DRIVEN = [made_up(job) for job in jobs_of("gdc1", range(5), 1)]


def written(path: Path, count: int = 3) -> Path:
    with PartialResults(path, CONFIGURATION) as partial:
        for driven in DRIVEN[:count]:
            partial.append(driven)
    return path


def test_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = written(tmp_path / "new" / "run.jsonl")
    with PartialResults(path, CONFIGURATION) as partial:
        assert partial.driven == DRIVEN[:3]
        partial.append(DRIVEN[3])
    with PartialResults(path, CONFIGURATION) as partial:
        assert partial.driven == DRIVEN[:4]


@pytest.mark.parametrize("lost", range(1, 60, 7))
def test_a_torn_end_is_cut_off_and_written_anew(tmp_path: Path, lost: int) -> None:
    path = written(tmp_path / "run.jsonl")
    path.write_bytes(path.read_bytes()[:-lost])
    with PartialResults(path, CONFIGURATION) as partial:
        assert partial.driven == DRIVEN[:2]
        partial.append(DRIVEN[2])
    with PartialResults(path, CONFIGURATION) as partial:
        assert partial.driven == DRIVEN[:3]


def test_another_configuration_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl")
    before = path.read_bytes()
    with pytest.raises(InputError, match=r'run\.jsonl.*policy: "reactive" there, "planner" here'):
        PartialResults(path, {**CONFIGURATION, "policy": "planner"})
    assert path.read_bytes() == before


#   what                 bytes
FOREIGN = [
    ("a line", b"precious notes"),
    ("lines", b"precious\nnotes\n"),
    ("json", b'{"episodes": 3}\n'),
    ("a list", b"[1, 2]\n"),
    ("an image", b"\x89PNG\r\n\x1a\n\x00\xff\xfe"),
]


@pytest.mark.parametrize(("what", "content"), FOREIGN, ids=[one[0] for one in FOREIGN])
def test_other_files_are_left_as_they_are(tmp_path: Path, what: str, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not the partial result"):
        PartialResults(path, CONFIGURATION)
    assert path.read_bytes() == content


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl")
    lines = path.read_text().splitlines()
    lines[2] = lines[2][:40]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="line 3"):
        PartialResults(path, CONFIGURATION)


def test_two_writers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with PartialResults(path, CONFIGURATION), pytest.raises(InputError, match="another evaluation"):
        PartialResults(path, CONFIGURATION)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        PartialResults(tmp_path / "file" / "run.jsonl", CONFIGURATION)
