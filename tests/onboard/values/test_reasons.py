"""The table of reasons: each text that the runtime gives for a reason has a row, and the row is found again."""

from __future__ import annotations

import ast
import re
import typing
from string import Formatter

import pytest

from onboard.config.config import Config
from onboard.navigation.agreement import Agreement
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.mission import Mission
from onboard.navigation.odometry import OdometryState
from onboard.recording.earlier_reasons import NO_ORIENTATION, today
from onboard.recording.recorder import RecorderStats
from onboard.recording.scene import clears, sentence_of, why
from onboard.safety import limits, recovery
from onboard.values import reasons
from onboard.values.interfaces import InputFault
from onboard.values.messages import CameraHealth
from onboard.values.reasons import JOIN, TABLE, Row, Said, of_topic, row_of, rows_in
from tests.rigs.machine.processes import ROOT

ROWS = [pytest.param(row, id=row.code) for row in TABLE.values()]


def said(row: Row) -> Said:
    return row.say(**{name: 7 for _, name, _, _ in Formatter().parse(row.sentence) if name})


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_found_by_its_code_and_by_its_sentence(row: Row) -> None:
    text = said(row)
    assert row_of(row.code) is row_of(row.named) is row_of(text) is row
    assert row_of(of_topic("/odom", text)) is row_of(of_topic("/robot/scan", text, ":")) is row
    assert row_of(f"stopped: {text}") is row_of(f"stopped: {reasons.refused_goal(text)}") is row


@pytest.mark.parametrize("row", ROWS)
def test_people_read_the_sentence_and_the_remedy_of_any_state(row: Row) -> None:
    """In `/onboard/drive`, which Foxglove shows, on the page, and in `onboard status`."""
    for text in (row.code, said(row)):
        state = f"stopped: {text}; {reasons.PAUSED.say()}"
        shown = sentence_of(state, why(state, "none"))
        assert shown == f"stopped: {row.general if text == row.code else text}; {reasons.PAUSED.sentence}"
        assert row.clears in clears(why(state, "none"))
    assert sentence_of("navigating", why("navigating", row.code)).startswith("navigating")
    assert reasons.in_words("reached; overload").startswith("reached; slowed")


@pytest.mark.parametrize("row", ROWS)
def test_a_row_reads_alike(row: Row) -> None:
    assert re.fullmatch("[a-z_]+", row.code)
    assert row.kind in reasons.KINDS
    assert not row.sentence.endswith(".")
    assert not row.clears or (row.clears.endswith((".", "?")) and row.clears[0].upper() == row.clears[0])


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_keys_that_the_configuration_has(row: Row) -> None:
    sections = "|".join(Config.model_fields)
    for section, key in re.findall(rf"\b({sections})\.([a-z_0-9]+)", f"{row.sentence} {row.clears}"):
        node = getattr(Config(), section)
        assert hasattr(node, key), f"{section}.{key}"


def test_each_reason_of_the_limits_is_given_somewhere() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "onboard").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    given = {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "Reason"}
    assert given == set(limits.Reason.__members__)


def test_a_code_has_one_row() -> None:
    with pytest.raises(ValueError, match="two reasons have the code idle"):
        Row("idle", reasons.END, "nothing to do", "")


def test_each_limit_has_a_row_and_each_row_a_limit() -> None:
    rows = {row.code for row in TABLE.values() if row.kind == reasons.LIMIT}
    assert rows == {reason.value for reason in limits.Reason}


def test_each_event_of_the_recovery_has_a_row_and_each_row_an_event() -> None:
    rows = {row.code for row in TABLE.values() if row.kind == reasons.RECOVERY}
    assert rows == {f"recovery_{event.value}" for event in recovery.Event}


TYPED = (
    (Mission, "reason"), (OdometryState, "refusal"), (OdometryState, "jump"), (Agreement, "contradiction"),
    (Agreement, "doubt"), (LocalizationState, "refusal"), (recovery.RecoveryState, "gave_up"), (InputFault, "reason"),
    (CameraHealth, "reason"), (RecorderStats, "stopped"),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), TYPED)
def test_mypy_lets_no_other_text_be_a_reason(kind: type, name: str) -> None:
    assert typing.get_type_hints(kind)[name] is Said


def test_only_the_table_makes_a_reason() -> None:
    makers = {
        str(file.relative_to(ROOT))
        for package in ("onboard", "hil", "calib", "engines")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("Said", "cast")
        if "Said" in ast.unparse(node)
    }
    assert makers == {"onboard/values/reasons.py"}


def test_each_row_is_used() -> None:
    texts = "".join(
        file.read_text(encoding="utf-8") for package in ("onboard", "hil") for file in (ROOT / package).rglob("*.py")
    )
    names = {name for name, row in vars(reasons).items() if isinstance(row, Row)}
    assert not [name for name in names if not re.search(rf"\b(reasons\.{name}|import .*\b{name})\b", texts)]


SEVERAL = [
    ("navigating", []),
    ("idle: cancelled", ["cancelled"]),
    ("stopped: e_stop", ["e_stop"]),
    ("stopped: goal refused: unknown frame 'x', known are odom, base_link, map", ["goal_frame"]),
    ("navigating; waiting for odometry (stale): /odom; scan (none yet): camera front", ["waiting"]),
    ("stopped: no progress towards the goal for 30 s; 5 of 180 bins are blind: no camera looks there",
     ["no_progress", "bins_blind"]),
    ("reached; unheard of", ["reached"]),
    ("stopped: input lost for 5 s: odometry (/odom) was never received", ["input_lost"]),
    ("stopped: input lost for 5 s", ["input_lost"]),
    ("a text of another program", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "codes"), SEVERAL)
def test_all_rows_of_a_state_are_found(text: str, codes: list[str]) -> None:
    assert [row.code for row in rows_in(text)] == codes


#   what others may send in a frame_id or a name
LONG = ["; " * 5000, "x" * 100_000, " is " * 5000, ", limit " * 5000, ": " * 5000]


@pytest.mark.parametrize("sent", LONG, ids=range(len(LONG)))
def test_a_text_that_others_made_long_is_looked_through_in_part(sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    monkeypatch.setattr(reasons, "row_of", lambda text: looked_at.append(text))
    assert rows_in(f"stopped: goal refused: unknown frame '{sent}', known are odom") == ()
    assert len(looked_at) <= reasons.MOST * (reasons.MOST + 1) // 2
    assert max(map(len, looked_at)) <= reasons.LONGEST


def test_joined_reasons_are_told_once() -> None:
    one, other = said(reasons.COVERED), said(reasons.NO_PROGRESS)
    assert reasons.joined(one, reasons.NO_REASON, other, one) == f"{one}{JOIN}{other}"


EARLIER = [
    ("stopped: goal refused: it came 6.0 s late, or its clock was set back; at most 5 s are taken", "goal_late"),
    ("stopped: goal refused: x is nan", "goal_not_finite"),
    ("stopped: goal refused: 5000 m away, limit 1000 m (goal.max_distance_m)", "goal_too_far"),
    ("localisation refused: it came before the first odometry", "fix_before_odometry"),
    ("it is nan; the one before stays in force", "speed_limit_refused"),
    (f"odometry refused: {NO_ORIENTATION}", "odometry_no_orientation"),
    (f"stopped: goal refused: {NO_ORIENTATION} All zero means any heading", "goal_no_orientation"),
]


@pytest.mark.parametrize(("text", "code"), EARLIER)
def test_a_sentence_of_an_earlier_release_becomes_that_of_today(text: str, code: str) -> None:
    row = row_of(today(text))
    assert row is not None
    assert row.code == code
    assert row_of(text) is not row
    assert today(today(text)) == today(text)


def test_the_details_of_an_earlier_sentence_stay() -> None:
    event = "goal_refused x_m=nan y_m=0.0 frame=odom reason=x is nan"
    assert today(event) == "goal_refused x_m=nan y_m=0.0 frame=odom reason=x of the goal is nan, not a finite number"
    late = "frame=odom reason=it came 6.0 s late, or its clock was set back; at most 5 s are taken"
    assert today(late).endswith(
        "frame=odom reason=the goal is 6.0 s late (limit 5 s), or its sender's clock was set back"
    )
