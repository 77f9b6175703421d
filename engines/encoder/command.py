"""`onboard-engines encoder`: the colour encoder alone, which is also the first stage of `onboard-engines train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engines.guard import MOST_SEED, device_of, in_one_line, require_range
from onboard.errors import MissingExtraError


def encoder(
    out: Annotated[
        Path, typer.Option(help="Folder; the same call goes on where it ended. Of a training: its folder encoder.")
    ],
    seed: Annotated[int, typer.Option(help=f"Of views, weights and batches; 0 to {MOST_SEED}.")] = 0,
    config: Annotated[Path | None, typer.Option(help=r"A .toml with an \[encoder] table.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes that render.")] = 2,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(help="PyTorch's threads.")] = 1,
    tiny: Annotated[bool, typer.Option("--tiny", help="Small widths, for trying out.")] = False,
) -> None:
    """Train the colour encoder, and say how well it tells distances in buildings that it never saw."""
    with in_one_line(out, "encoder.batch or --jobs"):
        require_range("--seed", seed, 0, MOST_SEED)
        require_range("--jobs", jobs, 1)
        require_range("--threads", threads, 1)
        lines = _lines(out, seed, config, jobs, device, threads, tiny)
    for line in lines:
        typer.echo(line)


def _lines(out: Path, seed: int, config: Path | None, jobs: int, device: str, threads: int, tiny: bool) -> list[str]:
    try:
        import torch

        from engines.encoder.alone import summary, train_and_report
        from engines.network import PAPER, TINY
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError(error.name, "train") from error
    torch.set_num_threads(threads)
    return summary(train_and_report(out, seed, config, jobs, str(device_of(device)), TINY if tiny else PAPER))
