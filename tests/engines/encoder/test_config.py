"""The encoder's configuration: checked at load, the issue's bounds, no unknown keys."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engines.encoder.config import EncoderSection
from hil.drive.episodes import COMMITTED

#    name                       table                                                   complaint
REFUSED = [
    ("unknown key", {"epochs": 3}, "epochs"),
    ("never at full size", {"phases": [{"shrink": 2, "epochs": 1}]}, "the last must have shrink 1, found 2"),
    ("more in a batch than views", {"batch": 9, "views": {"count": 8}}, "batch 9 must not be above views.count 8"),
    ("no map", {"views": {"maps": []}}, "maps"),
    ("infinite rate", {"learning_rate": float("inf")}, "learning_rate"),
]


@pytest.mark.parametrize(("name", "table", "complaint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_bad_value_is_refused_by_name(name, table, complaint):
    with pytest.raises(ValidationError, match=complaint):
        EncoderSection.model_validate(table)


def test_training_and_report_look_at_the_maps_of_their_split():
    section, splits = EncoderSection(), {plan.map_name: plan.split for plan in COMMITTED}
    assert {splits[name] for name in section.views.maps} == {"train"}
    assert {splits[name] for name in section.test_maps} == {"test"}
