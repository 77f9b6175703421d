"""How a policy came to be: its training, and those of the policies that this one and earlier ones began with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from onboard.config.config import MODEL_SUFFIX, model_path, pretrained_names
from onboard.policy.manifest import load_manifest

BEGAN = "began"
"""In what is said of a training (`engines.train.config.described`): the same of the policy that it began with."""


POLICY = "policy.pt"
"""The file of a training's result in its folder."""


class Step(NamedTuple):
    """One training: what its manifest says of it."""

    training: Mapping[str, Any]

    @property
    def init(self) -> str:
        """Return the name of the policy that it began with, without its folder; "" for none."""
        return Path(str(self.training.get("init") or "")).name

    @property
    def init_file(self) -> str:
        """Return the name of that policy's file: a model, or the trainer's own."""
        return POLICY if Path(self.init).suffix == Path(POLICY).suffix else f"{Path(self.init).stem}{MODEL_SUFFIX}"


def lineage(training: Mapping[str, Any]) -> list[Step]:
    """Return the steps as far as they are known, the first one first, this training last.

    A training tells of the policy that it began with; where it does not, that policy does, if it ships. By a name alone
    nothing is known: another policy of that name may ship by now. Raises ConfigError for a damaged manifest.
    """
    steps = [Step(training)]
    while steps[0].init:
        first = steps[0].training
        before = first.get(BEGAN) or _shipped(first.get("init_sha256"))
        if not before:
            break
        steps.insert(0, Step(before))
    return steps


def _shipped(sha256: object) -> Mapping[str, Any] | None:
    """Return what the manifest says of the training of that policy that ships and has this digest; None without one."""
    for name in pretrained_names():
        manifest = load_manifest(model_path(name))
        if manifest.sha256 == sha256:
            training: Mapping[str, Any] = manifest.extra.get("training", {})
            return training
    return None
