"""Checkpoints: whole or not there, read back as they were, and never mistaken."""

from __future__ import annotations

import pytest
import torch

from engines.encoder.training import Checkpoint, load_checkpoint, save_checkpoint
from engines.runs.torch_file import read_torch, write_torch
from onboard.values.errors import InputError

CHECKPOINT = Checkpoint("mine", 7, {"weight": torch.arange(3.0)}, {"state": {0: {"step": torch.tensor(7.0)}}})


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    file = tmp_path / "new" / "checkpoint.pt"
    assert load_checkpoint(file, "mine") is None
    save_checkpoint(file, CHECKPOINT)
    found = load_checkpoint(file, "mine")
    assert found is not None
    assert found.step == 7
    assert torch.equal(found.model["weight"], CHECKPOINT.model["weight"])
    assert found.optimizer["state"][0]["step"] == 7.0
    assert [path.name for path in file.parent.iterdir()] == ["checkpoint.pt"]


def test_another_training_s_checkpoint_is_refused_in_one_line(tmp_path):
    save_checkpoint(tmp_path / "checkpoint.pt", CHECKPOINT)
    with pytest.raises(InputError, match=r"checkpoint\.pt: a checkpoint of another configuration \(\w{12}, ") as caught:
        load_checkpoint(tmp_path / "checkpoint.pt", "yours")
    assert "\n" not in str(caught.value)


#    bytes of the file           complaint
DAMAGES = [(b"not a zip", "not a file by torch.save, or a truncated one"), (b"", "not a file by torch.save")]


@pytest.mark.parametrize(("content", "complaint"), DAMAGES)
def test_a_damaged_file_is_refused_by_name(tmp_path, content, complaint):
    file = tmp_path / "checkpoint.pt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"checkpoint\.pt: {complaint}"):
        load_checkpoint(file, "mine")


def test_a_file_of_something_else_is_refused(tmp_path):
    write_torch(tmp_path / "weights.pt", {"weight": torch.zeros(1)})
    with pytest.raises(InputError, match="not a checkpoint of the encoder's training"):
        load_checkpoint(tmp_path / "weights.pt", "mine")


def test_code_in_a_file_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("ran",))

    torch.save({"identity": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(InputError, match=r"trap\.pt: not a file by torch\.save"):
        read_torch(tmp_path / "trap.pt")
