"""Numbers that an option of `onboard-engines` does not take: one line, whichever command it is."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from engines.__main__ import main
from engines.cli_options import MOST_SEED, require_range
from onboard.values.errors import InputError

HUGE = str(10**20)
MODEL = ["export", "--tiny", "--out", "a.onnx"]
#    command                         option         number  what it must be
NUMBERS = [
    (["train", "--out", "out"], "--threads", "0", "at least 1"),
    (MODEL, "--seed", "-1", "at least 0"),
    (MODEL, "--seed", HUGE, f"at most {MOST_SEED}"),
    (MODEL, "--drives", "-1", "at least 0"),
    (["build", "onboard-v2"], "--sequences", "0", "at least 1"),
]


@pytest.mark.parametrize(("command", "option", "number", "must_be"), NUMBERS)
def test_it_is_refused_in_one_line_and_nothing_is_written(tmp_path, monkeypatch, command, option, number, must_be):
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, [*command, option, number])
    line = f"error: {option} {number}: must be {must_be}\n"
    assert (shown.exit_code, shown.stdout, shown.stderr) == (2, "", line)
    assert list(tmp_path.iterdir()) == []


def test_the_bounds_themselves_are_taken():
    for value in (0, MOST_SEED):
        require_range("--seed", value, 0, MOST_SEED)
    require_range("--jobs", 10**9, 1)
    for value in (-1, MOST_SEED + 1):
        with pytest.raises(InputError, match=f"^--seed {value}: must be at "):
            require_range("--seed", value, 0, MOST_SEED)
