"""Round trips from what was sent and what came: every interval on one clock, nothing lost without a word."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.live.target.round_trips import LOST_NS, PATIENCE_NS, REMEMBERED, Command, ImageSet, Matcher, Trip
from onboard.service.image_acks import ImageTiming

MS = 1_000_000
THEIRS = 7_000_000_000 * MS
"""The target's clock is decades from ours."""
BOTH = ("front", "rear")


def sent(stamp: int, at_ms: int, cameras: tuple[str, ...] = BOTH, posed_ms: int | None = None) -> ImageSet:
    return ImageSet(stamp, cameras, at_ms * MS, (at_ms if posed_ms is None else posed_ms) * MS)


def used(tick: int, images: Mapping[str, int], **changes: int) -> ImageTiming:
    """Return word of a tick of 10 ms: images there after 2, command out after 6; tick n begins at 1000 + 33 n ms."""
    numbers = {"sensed": 0, "acted": 0, "acting_ns": 0} | changes
    published_ns = THEIRS + (1010 + 33 * tick) * MS
    return ImageTiming(published_ns, 10 * MS, 2 * MS, 4 * MS, tick, 0, reason="none", images=images, **numbers)


def command(tick: int, at_ms: int) -> Command:
    return Command(THEIRS + (1006 + 33 * tick) * MS, at_ms * MS)


def settled(matcher: Matcher, tick: int, images: Mapping[str, int], at_ms: int, **changes: int) -> None:
    """Let the command of a tick come, and word of it just after."""
    matcher.receive(command(tick, at_ms))
    matcher.hear(used(tick, images, **changes), (at_ms + 1) * MS)


def test_a_command_is_answered_with_all_its_time() -> None:
    matcher = Matcher(BOTH)
    matcher.send(sent(7, 100, posed_ms=80))
    settled(matcher, 0, {"front": 7, "rear": 7}, 130)
    assert matcher.trips.command == [Trip(30.0, 4.0)]  # from having the images to sending the command
    assert matcher.trips.command[0].wire_ms == 26.0
    assert matcher.trips.sensors == [Trip(43.0, 0.0)]  # 131 - 80, without the 8 ms from having them to the word
    assert (matcher.trips.superseded, matcher.trips.lost_commands) == (0, 0)


#   name                       images of the tick             round trips, superseded
KNOWN = [
    ("all of it", {"front": 7, "rear": 7}, 1, 0),
    ("one is missing", {"front": 7}, 0, 0),
    ("one is older", {"front": 7, "rear": 6}, 0, 0),
    ("one is newer", {"front": 8, "rear": 7}, 1, 0),
    ("all are newer", {"front": 8, "rear": 9}, 1, 1),
    ("another besides", {"front": 7, "rear": 7, "color": 3}, 1, 0),
    ("nothing", {}, 0, 0),
]


@pytest.mark.parametrize(("name", "images", "trips", "superseded"), KNOWN)
def test_a_set_is_known_when_every_camera_has_it_or_something_newer(
    name: str, images: dict[str, int], trips: int, superseded: int
) -> None:
    matcher = Matcher(BOTH)
    matcher.send(sent(7, 100))
    settled(matcher, 0, images, 130)
    assert (len(matcher.trips.command), matcher.trips.superseded) == (trips, superseded)


def test_a_decision_goes_from_what_it_began_with_to_its_first_command() -> None:
    matcher = Matcher(BOTH)
    matcher.send(sent(7, 100, (*BOTH, "color")))
    matcher.send(sent(8, 160))
    began = {"front": 8, "rear": 8, "color": 7}
    settled(matcher, 0, began, 190, sensed=5)
    settled(matcher, 1, began, 220)
    settled(matcher, 3, {"front": 9, "rear": 9, "color": 9}, 290, acted=5, acting_ns=105 * MS)
    assert matcher.trips.decision == [Trip(130.0, 103.0)]  # less the 2 ms in which it took the images
    assert matcher.trips.color == [Trip(190.0, 103.0)]


#   name                                    what it began with              decisions, of them with colour
BLIND = [
    ("a camera was blind", {"front": 7, "color": 7}, (0, 1)),
    ("no colour", {"front": 7, "rear": 7}, (1, 0)),
    ("images from before we measured", {"front": 3, "rear": 3, "color": 3}, (0, 0)),
]


def test_a_command_that_never_comes_is_lost_once_patience_has_ended() -> None:
    matcher = Matcher(BOTH)
    matcher.hear(used(0, {}), 0)
    matcher.hear(used(1, {}), PATIENCE_NS - 1)
    assert matcher.trips.lost_commands == 0
    matcher.hear(used(2, {}), PATIENCE_NS)
    assert matcher.trips.lost_commands == 1


def test_ending_counts_what_no_command_ever_knew_and_begins_anew() -> None:
    matcher = Matcher(BOTH)
    matcher.send(sent(7, 0))
    matcher.send(sent(8, 1))
    measured = matcher.end(LOST_NS + MS)
    assert (measured.unanswered, measured.command) == (1, [])
    settled(matcher, 0, {"front": 8, "rear": 8}, 130)
    assert matcher.trips.command == []


def test_it_does_not_grow_without_end() -> None:
    matcher = Matcher(BOTH)
    for number in range(2 * REMEMBERED):
        matcher.send(sent(number, number, ("color",)))
    settled(matcher, 0, {"color": REMEMBERED - 1, **dict.fromkeys(BOTH, 0)}, 10_000, sensed=1)
    settled(matcher, 1, {}, 10_033, acted=1, acting_ns=1)
    assert matcher.trips.color == []
    assert len(matcher.trips.sensors) == REMEMBERED


@given(lost=st.sets(st.integers(0, 29)), silent=st.sets(st.integers(0, 29)), skew=st.integers(0, 3))
def test_whatever_is_lost_a_set_is_answered_once_by_the_first_command_told_of_that_came(
    lost: set[int], silent: set[int], skew: int
) -> None:
    """Each tick has the newest set; commands and words get lost apart from each other, and words come late."""
    matcher = Matcher(BOTH)
    words: list[tuple[int, ImageTiming]] = []
    for tick in range(30):
        matcher.send(sent(tick, 33 * tick))
        if tick not in lost:
            matcher.receive(command(tick, 33 * tick + 20))
        if tick not in silent:
            words.append((33 * (tick + skew) + 21, used(tick, {"front": tick, "rear": tick})))
    for at_ms, word in words:
        matcher.hear(word, at_ms * MS)
    matcher.hear(used(40, {}), 33 * 40 * MS)
    matcher.receive(command(41, 33 * 41))
    good = sorted(set(range(30)) - lost - silent)
    expected = [
        33 * next(one for one in good if one >= tick) + 20 - 33 * tick for tick in range(max(good, default=-1) + 1)
    ]
    assert [trip.total_ms for trip in matcher.trips.command] == expected
    assert matcher.trips.superseded == len(expected) - len(good)
    assert all(one.wire_ms > 0 for one in itertools.chain(matcher.trips.command))
