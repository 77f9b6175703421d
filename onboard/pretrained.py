"""The policies that ship with `onboard`, by name: `onboard-v1` is `engines/pretrained/onboard-v1.onnx`.

They stand beside the training that made them, in a package that the runtime does not import; both are installed
together, so the folder is found beside this package's.
"""

from __future__ import annotations

from pathlib import Path

from onboard.errors import InputError

MODEL_SUFFIX = ".onnx"
PRETRAINED = Path(__file__).resolve().parents[1] / "engines" / "pretrained"


def pretrained_names() -> list[str]:
    """Return the names of the policies that ship, sorted."""
    return sorted(path.stem for path in PRETRAINED.glob(f"*{MODEL_SUFFIX}"))


def pretrained(name: str) -> Path:
    """Return the model of a policy that ships. Raises InputError, which lists those that do."""
    if name not in pretrained_names():
        listed = ", ".join(pretrained_names()) or "none in this release"
        raise InputError(f"policy {name}: no policy of that name ships (there is: {listed})")
    return PRETRAINED / f"{name}{MODEL_SUFFIX}"


def is_name(model: str) -> bool:
    """Return whether a text names a policy that ships, or should: a path has a suffix or a separator."""
    return Path(model).name == model and Path(model).suffix == ""


def model_path(model: str) -> Path:
    """Return the file of a model: a name's, or the path itself. Raises InputError for a name that does not ship."""
    return pretrained(model) if is_name(model) else Path(model)
