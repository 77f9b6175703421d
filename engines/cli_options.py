"""Shared by the commands: the device, ranges of numbers, and one line for each error or signal."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from onboard.commands.cli import error_lines
from onboard.system.signals import KILLED_BY, Signals
from onboard.values.errors import InputError, OnboardError

if TYPE_CHECKING:
    import torch

REFUSED, INTERRUPTED = 2, KILLED_BY + signal.SIGINT
CUDA_REFUSES = "OutOfMemoryError"
TELLING = (
    "DefaultCPUAllocator: ", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"
)  # fmt: skip
"""Texts of PyTorch's RuntimeError if memory runs out; `CUDA_REFUSES` is the name of its subclass."""
MOST_SEED = 2**63 - 1
"""Largest seed that PyTorch and TOML take."""


@contextmanager
def in_one_line(out: Path, lower: str) -> Iterator[None]:
    """Print one line for the signal or error that ends a training, and exit with its code.

    out: folder of the training; lower: the values to lower when memory runs out
    """
    try:
        with ended_by_signals():
            yield
    except OnboardError as error:
        typer.echo(error_lines(error), err=True, nl=False)
        raise typer.Exit(REFUSED) from error
    except (KeyboardInterrupt, SystemExit) as end:
        typer.echo(f"stopped; run the same command again to resume from the last checkpoint in {out}", err=True)
        raise typer.Exit(code_of(end)) from end
    except (MemoryError, OSError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        typer.echo(f"error: out of memory: lower {lower}", err=True)
        raise typer.Exit(REFUSED) from error


def code_of(end: KeyboardInterrupt | SystemExit) -> int:
    """Return the exit code of a command that a signal ended (`ended_by_signals`)."""
    code = INTERRUPTED if isinstance(end, KeyboardInterrupt) else end.code
    return code if isinstance(code, int) else REFUSED


def require_range(option: str, value: int, least: int, most: int | None = None) -> None:
    """Raise InputError for a number of an option outside of its range."""
    if value < least:
        raise InputError(f"{option} {value}: must be at least {least}")
    if most is not None and value > most:
        raise InputError(f"{option} {value}: must be at most {most}")


def device_of(name: str) -> torch.device:
    """Return the device of `--device`. Raises InputError for an unknown or missing device."""
    import torch

    if name not in ("cpu", "cuda"):
        raise InputError(f"--device {name}: must be cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: PyTorch finds no CUDA device here")
    return torch.device(name)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise SystemExit for SIGTERM and SIGHUP, so that child processes end too. Under nohup SIGHUP stays ignored."""
    hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    with Signals():
        if hangup_ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        yield


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error of Python, NumPy, PyTorch or the system means that memory ran out."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    is_of_cuda = type(error).__name__ == CUDA_REFUSES or any(text in str(error) for text in TELLING)
    return isinstance(error, MemoryError) or is_of_cuda
