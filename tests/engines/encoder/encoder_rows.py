"""A small training of the colour encoder for tests: six views of one map, a few steps."""

from __future__ import annotations

import shutil
from pathlib import Path

from engines.encoder.config import EncoderSection, PhaseSection, ViewsSection

SMALL = EncoderSection(
    views=ViewsSection(maps=("depot",), count=6, per_building=6),
    phases=(PhaseSection(shrink=4, epochs=1.0), PhaseSection(shrink=1, epochs=0.67)),
    batch=2,
    checkpoint_every=2,
    test_maps=("apartment",),
    test_count=3,
)
STEPS = 5


def copied(trained: Path, folder: Path, *names: str) -> Path:
    """Return the folder with some of what another training left."""
    folder.mkdir(exist_ok=True)
    for name in names:
        source = trained / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy(source, folder / name)
    return folder
