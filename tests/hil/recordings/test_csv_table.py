"""A table reads alike in each form that spreadsheets and loggers write; what is cut or mixed is refused by its line."""

from __future__ import annotations

import codecs
from pathlib import Path

import numpy as np
import pytest

from hil.recordings.csv_table import read_csv
from onboard.values.errors import InputError

NEEDED = ("t_s", "v")
PLAIN = "t_s,v,note\n0.0,0.25,a b\n1.5,-2e-3,c\n"
GERMAN = PLAIN.replace(",", ";").replace(".", ",")
#   what                        bytes
FORMS = {
    "plain": PLAIN.encode(),
    "byte order mark": codecs.BOM_UTF8 + PLAIN.encode(),
    "Excel's Unicode text": PLAIN.replace(",", "\t").encode("utf-16"),
    "CRLF": PLAIN.replace("\n", "\r\n").encode(),
    "CR": PLAIN.replace("\n", "\r").encode(),
    "semicolons": PLAIN.replace(",", ";").encode(),
    "tabs": PLAIN.replace(",", "\t").encode(),
    "decimal comma": GERMAN.encode(),
    "decimal comma and mark": codecs.BOM_UTF8 + GERMAN.encode(),
    "blanks": PLAIN.replace(",", " , ").encode(),
    "quotes": (b'"t_s","v","note"\n"0.0","0.25","a b"\n"1.5", "-2e-3", "c"\n'),
    "header as a comment": b"# " + PLAIN.encode(),
    "empty lines": PLAIN.replace("\n", "\n\n").encode(),
    "other columns": PLAIN.replace("t_s", "x,t_s").replace("\n0.0", "\n7,0.0").replace("\n1.5", "\n7,1.5").encode(),
    "empty last column": PLAIN.replace("\n", ",\n").encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_reads_alike_in_each_form(form: str, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_bytes(FORMS[form])
    table = read_csv(file, NEEDED)
    np.testing.assert_array_equal(table.numbers("t_s"), [0.0, 1.5])
    np.testing.assert_array_equal(table.numbers("v"), [0.25, -0.002])
    assert table.columns["note"] == ["a b", "c"]


#   what                        bytes                                       said
WRONG = {
    "empty": (b"", "no column t_s; needed: t_s, v"),
    "no column": (b"t,v\n1,2\n", "line 1: no column t_s; needed: t_s, v, found t, v"),
    "a column twice": (b"t_s,v,v\n1,2,3\n", "line 1: the column v appears twice"),
    "a cut row": (b"t_s,v\n1,2\n\n2\n", "line 4: 1 values for 2 columns; a row is cut"),
    "commas for both": (b"t_s,v\n1,0,5\n", "line 2: 3 values for 2 columns; a row is cut, or a number has a comma"),
    "comma and point": (b"t_s;v\n0.5;1\n1;1,5\n", "line 3: v = '1,5' is not a number"),
    "a word": (b"t_s,v\n1,fast\n", "line 2: v = 'fast' is not a number"),
    "no value": (b"t_s,v\n1,\n", "line 2: v = '' is not a number"),
    "NaN": (b"t_s,v\n1,2\n2,NaN\n", "line 3: v = NaN is not finite"),
    "Latin": ("t_s,v,\u00b0\n1,2,3\n".encode("latin-1"), "not a CSV file in UTF-8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read_whole_is_refused_by_its_line(name: str, tmp_path: Path) -> None:
    data, said = WRONG[name]
    file = tmp_path / "log.csv"
    file.write_bytes(data)
    with pytest.raises(InputError) as refused:
        read_csv(file, NEEDED).numbers("v")
    assert str(refused.value).startswith(f"{file}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named_and_an_empty_value_may_be_allowed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file"):
        read_csv(tmp_path / "none.csv", NEEDED)
    file = tmp_path / "log.csv"
    file.write_text("t_s,v\n1,\n2,nan\n3,4\n")
    assert np.isnan(read_csv(file, NEEDED).numbers("v", may_be_empty=True)).tolist() == [True, True, False]
