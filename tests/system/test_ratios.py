"""The table of `make bench`: what counts as a regression, and what is written; and the work of a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onboard.config.toml_file import read_toml
from tests.benchmarks.conftest import ALLOWED, TRIES, Ratios, processor
from tests.benchmarks.performance import multiply_accumulates


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ratios.toml"
    path.write_text(f'["{processor()}"]\n"fusion: numpy" = 10.0\n"other" = 2.0\n\n["another"]\n"new" = 9.0\n')
    return path


def series(*values: float) -> Callable[[], float]:
    left = list(values)
    return lambda: left.pop(0)


#   case                                 measured          least  passes
ROWS = [
    ("as accepted",                      (10.0,),            1.0, True),
    ("a little slower",                  (8.1,),             1.0, True),
    ("a fifth slower, three times",      (7.9, 7.8, 7.9),    1.0, False),
    ("slow once, by other programs",     (5.0, 9.0),         1.0, True),
    ("below its own limit",              (9.0, 9.0, 9.0),    9.5, False),
]  # fmt: skip


@pytest.mark.parametrize(("case", "measured", "least", "passes"), ROWS)
def test_a_regression_fails_and_names_its_row(
    file: Path, case: str, measured: tuple[float, ...], least: float, passes: bool
) -> None:
    table = Ratios(file, compares=True)
    if passes:
        table.check("fusion: numpy", series(*measured), least)
    else:
        assert len(measured) == TRIES, case
        with pytest.raises(AssertionError, match=r"fusion: numpy: .*must be"):
            table.check("fusion: numpy", series(*measured), least)
    assert table.measured == {"fusion: numpy": max(measured)}


def test_beside_other_tests_only_the_limit_holds(file: Path) -> None:
    Ratios(file, compares=False).check("fusion: numpy", series(1.5), 1.0)


def test_what_is_accepted_replaces_its_rows_only(file: Path) -> None:
    table = Ratios(file, compares=False)
    table.check("fusion: numpy", series(12.345))
    table.check("new", series(3.0))
    table.check("waits for other programs", series(4.0), steady=False)
    table.save()
    tables = read_toml(file)
    assert tables[processor()] == {"fusion: numpy": 12.35, "new": 3.0, "other": 2.0}
    assert tables["another"] == {"new": 9.0}
    assert [line.split("  ")[-1] for line in table.lines()] == ["accepted 10.00", "new", "not compared"]
    with pytest.raises(AssertionError, match="new"):
        Ratios(file, compares=True).check("new", lambda: 0.99 * ALLOWED * 3.0)


def test_the_work_of_a_network_is_counted(tmp_path: Path) -> None:
    """A convolution of 8 kernels of 4x3x3 over 10x10 pixels, then a product with 800x5 numbers."""
    weights = {"kernels": np.ones((8, 4, 3, 3), np.float32), "matrix": np.ones((800, 5), np.float32)}
    nodes = [
        helper.make_node("Conv", ["image", "kernels"], ["seen"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["seen"], ["flat"]),
        helper.make_node("Gemm", ["flat", "matrix"], ["out"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 4, 10, 10])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 5])
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = helper.make_model(helper.make_graph(nodes, "small", [image], [out], stored))
    onnx.save(model, tmp_path / "small.onnx")
    assert multiply_accumulates(tmp_path / "small.onnx") == 10 * 10 * 8 * 4 * 9 + 800 * 5
