"""A folder that one training has."""

from __future__ import annotations

import pytest

from engines.train.stages import alone_in
from onboard.values.errors import InputError


def test_a_folder_is_one_trainings_at_a_time(tmp_path):
    refused = pytest.raises(InputError, match=f"^{tmp_path}: another training is writing it: wait")
    with alone_in(tmp_path), refused, alone_in(tmp_path):
        pass
    with alone_in(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: cannot be written: File exists"), alone_in(tmp_path / "file"):
        pass
