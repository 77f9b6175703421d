"""A helper beside a main coroutine: both end together, and the first error is raised."""

from __future__ import annotations

import asyncio

import pytest

from onboard.system.signals import run_beside


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
        raise ValueError("broke")

    async def brief(self) -> None:
        await asyncio.sleep(0)
        self.ended.append("brief")


def test_helpers_end_with_the_main_coroutine() -> None:
    probe = Probe()
    asyncio.run(run_beside(probe.brief(), probe.forever("helper")))
    assert probe.ended == ["brief", "helper"]


def test_failing_helper_cancels_the_main_coroutine_and_is_raised() -> None:
    probe = Probe()
    with pytest.raises(ValueError, match="broke"):
        asyncio.run(run_beside(probe.forever("main"), probe.fail()))
    assert probe.ended == ["main"]


def test_cancelling_the_run_ends_all() -> None:
    probe = Probe()

    async def drive() -> None:
        run = asyncio.create_task(run_beside(probe.forever("main"), probe.forever("helper")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(drive())
    assert sorted(probe.ended) == ["helper", "main"]


def test_a_main_coroutine_that_is_cancelled_says_so_and_leaves_no_helper() -> None:
    probe = Probe()

    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_beside(gives_up(), probe.forever("helper")))
    assert probe.ended == ["helper"]
