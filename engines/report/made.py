"""Policies that were driven and do not ship: the manifest of each lies beside its results, without its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hil.evaluate.code import file_digest
from onboard.errors import InputError
from onboard.manifest import MANIFEST_SUFFIX, Manifest
from onboard.pretrained import MODEL_SUFFIX
from onboard.toml_file import validation_line

MANIFESTS = f"*{MODEL_SUFFIX}{MANIFEST_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Made:
    """One manifest. model: name of the file that it is of; digest: as evaluations tell it."""

    file: Path
    model: str
    digest: str
    manifest: Manifest

    @property
    def training(self) -> Mapping[str, Any]:
        """Return what it says of its training; nothing where it does not."""
        training: Mapping[str, Any] = self.manifest.extra.get("training", {})
        return training

    def is_manifest_of(self, configuration: Mapping[str, Any]) -> bool:
        """Return whether nothing tells that an evaluation was of another; older results tell of none."""
        return bool(configuration.get("manifest", self.digest) == self.digest)


def made_in(folder: Path) -> tuple[Made, ...]:
    """Return the manifests in a folder. Raises InputError for one that is none."""
    return tuple(_made(file) for file in sorted(folder.glob(MANIFESTS)))


def _made(file: Path) -> Made:
    try:
        manifest = Manifest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise InputError(validation_line(file, error)) from error
    return Made(file, file.name.removesuffix(MANIFEST_SUFFIX), file_digest(file), manifest)
