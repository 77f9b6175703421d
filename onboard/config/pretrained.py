"""The policies that ship with `onboard`, by name: `onboard-v2` is `engines/pretrained/onboard-v2.onnx`."""

from __future__ import annotations

from pathlib import Path

from onboard.values.errors import InputError

MODEL_SUFFIX = ".onnx"
PRETRAINED = Path(__file__).resolve().parents[2] / "engines" / "pretrained"
FORMER = {"onboard-v1": "use onboard-v2; commit ca0c521b has engines/pretrained/onboard-v1.onnx and its manifest"}
"""Policies that shipped once."""


def pretrained_names() -> list[str]:
    """Return the names of the policies that ship, sorted."""
    return sorted(path.stem for path in PRETRAINED.glob(f"*{MODEL_SUFFIX}"))


def pretrained(name: str) -> Path:
    """Return the model file of a shipped policy. Raises InputError with the names of all shipped policies."""
    if name in FORMER and name not in pretrained_names():
        raise InputError(f"policy {name}: no longer ships: {FORMER[name]}")
    if name not in pretrained_names():
        listed = ", ".join(pretrained_names()) or "none in this release"
        raise InputError(f"policy {name}: no shipped policy has this name; available: {listed}")
    return PRETRAINED / f"{name}{MODEL_SUFFIX}"


def is_name(model: str) -> bool:
    """Return whether a text is a policy's name and no path: it has neither suffix nor separator."""
    return Path(model).name == model and Path(model).suffix == ""


def model_and_fallback(policy: str) -> tuple[str, str]:
    """Return model and fallback of a policy as a command takes it: "onboard-s+reactive", or without a fallback."""
    model = policy.removesuffix("+reactive")
    return (policy, "none") if model in ("", "reactive", policy) else (model, "reactive")


def model_path(model: str) -> Path:
    """Return the model file of a policy's name or path. Raises InputError for an unknown name."""
    return pretrained(model) if is_name(model) else Path(model)
