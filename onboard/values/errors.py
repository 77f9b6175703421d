"""Errors that a person reads: one line that names what, where and the limit."""


class OnboardError(Exception):
    """Base of all errors that this project raises on purpose. `str(error)` is one clear line."""


class ConfigError(OnboardError):
    """A configuration, mounts, plant or manifest file is missing, malformed or inconsistent."""


class InputError(OnboardError):
    """A file or message given from outside cannot be used: names it, the field and the limit."""


class DriverError(OnboardError):
    """A device or link is gone or does not answer."""


class EngineError(OnboardError):
    """The policy's engine could not be built, does not fit its manifest, or failed."""


class RuntimeFaultError(OnboardError):
    """The runtime itself failed on inputs that are in order. The message ends with the traceback."""


class DisagreementError(OnboardError):
    """A model does not decide as the one that it was made from."""


class MissingExtraError(OnboardError):
    """An optional library is not installed; the message names the extra that brings it."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed: pip install 'onboard[{extra}]'")
