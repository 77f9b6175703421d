"""How a result is written: JSON that is readable and of a size that can be kept, and tables in Markdown."""

from __future__ import annotations

import json

import pytest

from onboard.commands.cli import markdown_table, write_json
from onboard.values.errors import OnboardError

RESULT = {
    "way_m": [[0.5, -1e-07], [2, 3.25]],
    "ends": {"stop": [], "[\n1, 2\n]": "[ 1,\n 2 ]"},
    "maps": ["a", "b"],
    "n": 3,
}


def test_an_array_of_numbers_is_one_line_and_every_value_the_same(tmp_path):
    write_json(str(tmp_path / "a.json"), RESULT)
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == RESULT
    assert "    [0.5, -1e-07],\n    [2, 3.25]\n" in text
    assert text.endswith("}\n")


def test_what_cannot_be_written_is_one_line_that_names_the_file(tmp_path):
    with pytest.raises(OnboardError, match=r"nowhere/a\.json: cannot be written: No such file or directory$"):
        write_json(str(tmp_path / "nowhere" / "a.json"), RESULT)


#   headings, rows, columns of words       table
TABLES = [
    (("a", "b"), [["x", "1"], ["y", "2"]], 1, "| a | b |\n|---|---:|\n| x | 1 |\n| y | 2 |"),
    (("a", "b"), [["x|y", "z\nw"]], 2, "| a | b |\n|---|---|\n| x\\|y | z w |"),
    (("a",), [], 0, "| a |\n|---:|"),
]


@pytest.mark.parametrize(("headings", "rows", "words", "table"), TABLES)
def test_what_a_cell_says_does_not_end_it(headings, rows, words, table):
    assert markdown_table(headings, rows, words) == table
