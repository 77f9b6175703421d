"""The owner of all tasks cancels, awaits and re-raises."""

from __future__ import annotations

import asyncio

import pytest

from onboard.system.signals import TaskOwner


class Probe:
    """Coroutines that record how they ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def forever(self, name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(name)

    async def fail(self) -> None:
        await asyncio.sleep(0)
        raise ValueError("helper broke")

    async def brief(self) -> None:
        await asyncio.sleep(0)
        self.ended.append("brief")


def test_helpers_end_with_the_main_coroutine() -> None:
    probe, owner = Probe(), TaskOwner()
    owner.beside(probe.forever("helper"), "helper")
    asyncio.run(owner.run(probe.brief()))
    assert probe.ended == ["brief", "helper"]


def test_failing_helper_cancels_the_main_coroutine_and_is_raised() -> None:
    probe, owner = Probe(), TaskOwner()
    owner.beside(probe.fail(), "broken")
    owner.beside(probe.forever("other"), "other")
    with pytest.raises(ValueError, match="helper broke"):
        asyncio.run(owner.run(probe.forever("main")))
    assert sorted(probe.ended) == ["main", "other"]


def test_failing_main_is_raised_after_helpers_ended() -> None:
    probe, owner = Probe(), TaskOwner()
    owner.beside(probe.forever("helper"), "helper")
    with pytest.raises(ValueError, match="helper broke"):
        asyncio.run(owner.run(probe.fail()))
    assert probe.ended == ["helper"]


def test_helper_may_end_early() -> None:
    probe, owner = Probe(), TaskOwner()

    async def main() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        probe.ended.append("main")

    owner.beside(probe.brief(), "brief")
    asyncio.run(owner.run(main()))
    assert probe.ended == ["brief", "main"]


def test_cancelling_the_run_ends_all() -> None:
    probe, owner = Probe(), TaskOwner()
    owner.beside(probe.forever("helper"), "helper")

    async def drive() -> None:
        run = asyncio.create_task(owner.run(probe.forever("main")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(drive())
    assert sorted(probe.ended) == ["helper", "main"]


def test_a_main_coroutine_that_is_cancelled_says_so_and_leaves_no_helper() -> None:
    probe, owner = Probe(), TaskOwner()
    owner.beside(probe.forever("helper"), "helper")

    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(owner.run(gives_up()))
    assert probe.ended == ["helper"]
