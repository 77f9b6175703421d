"""How exactly the matrices of learning are multiplied on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]
_ONEDNN: dict[Precision, str] = {"float32": "ieee", "bfloat16": "bf16"}


@contextmanager
def products_in(precision: Precision) -> Iterator[None]:
    """Let the factors of a product be rounded so far for a while; weights, sums and everything else stay single.

    With "bfloat16" PyTorch leaves products to oneDNN, which rounds where the CPU has units for it (AMX). With AVX-512
    alone it rounds nothing, and is still faster than MKL is on an AMD processor; with neither nothing changes, nor on
    a GPU. tests/benchmarks/test_recurrence_speed.py compares.
    """
    onednn = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = onednn.fp32_precision
    onednn.fp32_precision = _ONEDNN[precision]
    try:
        yield
    finally:
        onednn.fp32_precision = before
