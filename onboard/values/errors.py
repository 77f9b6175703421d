"""Errors for the operator. Each message is one line with the problem, its place and the limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class OnboardError(Exception):
    """Base class of this project's errors. `str(error)` is one line for the operator."""


class ConfigError(OnboardError):
    """A configuration, mounts, plant or manifest file is missing, malformed or inconsistent."""


class InputError(OnboardError):
    """A file or message from outside is invalid. The message names the file, the field and the limit."""


class DriverError(OnboardError):
    """A device or link is gone or does not answer."""


class EngineError(OnboardError):
    """The policy's engine could not be built, does not match its manifest, or failed."""


class RuntimeFaultError(OnboardError):
    """The runtime failed on valid inputs. The message ends with the traceback."""


class DisagreementError(OnboardError):
    """An exported model's decisions differ from its source model's decisions."""


class MissingExtraError(OnboardError):
    """An optional library is not installed. The message names the extra to install."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed: pip install 'onboard[{extra}]'")


@contextmanager
def naming(file: object, done: str = "read", kind: type[OnboardError] = InputError) -> Iterator[None]:
    """Raise an error that names the file for an OSError within. done: what cannot be done, "read" or "written"."""
    try:
        yield
    except OSError as error:
        raise kind(f"{file}: cannot be {done}: {error.strerror or error}") from error
