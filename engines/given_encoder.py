"""A colour encoder that is trained already (`--encoder`): the file of one, or that of a policy that ships."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from engines.encoder.features import load_encoder
from engines.restore import initial_weights
from onboard.errors import InputError
from onboard.pretrained import MODEL_SUFFIX


def put_encoder(rgb: nn.Module, file: Path) -> None:
    """Put the weights of a file by the encoder's training, or those in an exported policy, into a network's encoder.

    Raises InputError for any other file, ConfigError or EngineError for a model that its manifest does not fit.
    """
    if file.suffix != MODEL_SUFFIX:
        load_encoder(rgb, file)
        return
    network = initial_weights(str(file)).network
    if not network.variant.rgb:
        raise InputError(f"--encoder {file}: this policy sees no colour")
    try:
        rgb.load_state_dict(network.get_submodule("rgb").state_dict())
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"--encoder {file}: its encoder is of other sizes: {reason}") from error
