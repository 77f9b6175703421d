"""The effect of a signal before, during and after the run of a command."""

from __future__ import annotations

import os
import signal

import pytest

from onboard.system.signals import ENDING, Signals

#   signal          exception during the start of a command
STARTING = [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, 143)]


@pytest.mark.parametrize(("number", "kind", "code"), STARTING, ids=["SIGINT", "SIGTERM"])
def test_a_start_is_ended_at_once(number: signal.Signals, kind: type[BaseException], code: int | None) -> None:
    with pytest.raises(kind) as ended, Signals():
        os.kill(os.getpid(), number)
    assert getattr(ended.value, "code", None) == code


@pytest.mark.parametrize("number", ENDING)
def test_what_runs_is_asked_to_stop_every_time(number: signal.Signals) -> None:
    calls = []
    with Signals() as signals:
        signals.stop_with(lambda: calls.append(number))
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert calls == [number, number]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_in_a_finalizer_is_not_lost() -> None:
    """Python prints and drops what a finalizer raises, so the command would go on."""

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with Signals() as signals:
        Finalized()
        with pytest.raises(KeyboardInterrupt):
            signals.stop_with(lambda: None)


def test_a_deferred_signal_ends_a_start_where_it_is_asked_for() -> None:
    reached = []

    def start() -> None:
        with Signals() as signals, signals.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("a place where nothing may be cut off")
            signals.check()
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == ["a place where nothing may be cut off"]


def test_a_deferred_signal_is_not_lost_when_nobody_asks() -> None:
    signals = Signals()
    with pytest.raises(SystemExit), signals, signals.deferred():
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_handlers_before_come_back_whatever_happens() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    with pytest.raises(ValueError), Signals():
        raise ValueError
    assert [signal.getsignal(number) for number in ENDING] == before
