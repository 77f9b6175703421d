"""Collectors in processes of their own, so that a trainer may learn from one round while the next one is driven.

With which weights a round is driven depends on when it is requested, not on whether a collector has a process of its
own: the result depends on the number of collectors, not on how fast they are.

This is no pool of `hil.jobs`: a collector keeps its drives from round to round, so no other process can take its place.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

import torch

from engines.cli_options import is_for_want_of_memory
from engines.network.network import PolicyNetwork, Variant, Widths
from engines.train.rollout.collector import Rules
from engines.train.rollout.optimizer_step import Weights, is_learned, put_weights
from hil.jobs.process_pool import interrupts_unheard
from onboard.system.threads import die_with_parent
from onboard.values.errors import OnboardError

CLOSE_S = 10.0
LOWER = "out of memory: lower driving.lanes or imitation.collectors, reinforce.collectors"
ENDED = "a collector's process ended without a word: most likely the machine ran out of memory"
Brought = TypeVar("Brought")
Brings = TypeVar("Brings", covariant=True)


class Drives(Protocol[Brings]):
    """One who drives rounds, such as `engines.train.rollout.collector.Collector`."""

    def collect(self, weights: Weights) -> Brings:
        """Drive a round with some weights and return what came of it."""


Make = Callable[[Rules, PolicyNetwork, Sequence[int], int, torch.device], Drives[Brought]]
"""Makes one for a chapter: rules, network, seed, its number among all, device. Can be pickled."""


class Crew(Protocol[Brought]):
    """Whoever drives for the trainer."""

    def open(self, seed: Sequence[int]) -> None:
        """Furnish the buildings of a chapter and put the robots down."""

    def request(self, weights: Weights) -> None:
        """Begin a round."""

    def result(self) -> list[Brought]:
        """Return the round begun last, one of each collector. Raises OnboardError when one has failed."""

    def close(self) -> None:
        """Send everybody home. Safe to call twice."""


class LocalCrew(Generic[Brought]):
    """One collector, in place."""

    def __init__(self, make: Make[Brought], rules: Rules, network: PolicyNetwork, device: torch.device) -> None:
        self._make, self._rules, self._device = make, rules, device
        self._network = PolicyNetwork(network.widths, network.variant).to(device)
        self._network.load_state_dict(network.state_dict())
        self._collector: Drives[Brought] | None = None
        self._round: list[Brought] = []

    def open(self, seed: Sequence[int]) -> None:
        """Furnish."""
        self._collector = self._make(self._rules, self._network, seed, 0, self._device)

    def request(self, weights: Weights) -> None:
        """Drive a round now."""
        if self._collector is None:
            raise OnboardError("the crew has not been opened")
        self._round = [self._collector.collect(weights)]

    def result(self) -> list[Brought]:
        """Return it."""
        if not self._round:
            raise OnboardError("no round was requested")
        return self._round

    def close(self) -> None:
        """Nothing to do."""


class ProcessCrew(Generic[Brought]):
    """Collectors in processes of their own, on the CPU, one thread each."""

    def __init__(self, make: Make[Brought], rules: Rules, network: PolicyNetwork, collectors: int) -> None:
        context = multiprocessing.get_context("spawn")
        frozen = {name: value.cpu().numpy() for name, value in network.state_dict().items() if not is_learned(name)}
        self._ends: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for number in range(collectors):
            here, there = context.Pipe()
            given = (there, os.getpid(), make, rules, network.widths, network.variant, frozen, number)
            process = context.Process(target=_work, args=given, daemon=True)
            with interrupts_unheard():
                process.start()
            there.close()
            self._ends.append(here)
            self._processes.append(process)

    def open(self, seed: Sequence[int]) -> None:
        """Let all furnish, and wait for it. Raises OnboardError with what the first one that cannot says."""
        self._send(("open", list(seed)))
        self._answers()

    def request(self, weights: Weights) -> None:
        """Let all begin a round."""
        self._send(("round", dict(weights)))

    def result(self) -> list[Brought]:
        """Wait for all and return what they bring, in their order."""
        return self._answers()

    def close(self) -> None:
        """End the processes, also in the middle of a round: they hold nothing that is not in the trainer's."""
        for end in self._ends:
            end.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(CLOSE_S)
            if process.is_alive():
                process.kill()
                process.join()
        self._ends, self._processes = [], []

    def _answers(self) -> list[Any]:
        """Return one answer of each. A text is what went wrong."""
        answers = []
        for end, process in zip(self._ends, self._processes, strict=True):
            try:
                answer = end.recv()
            except (EOFError, ConnectionError) as error:
                raise OnboardError(_end_of(process)) from error
            if isinstance(answer, str):
                raise OnboardError(f"a collector failed: {answer}")
            answers.append(answer)
        return answers

    def _send(self, order: tuple[str, object]) -> None:
        for end, process in zip(self._ends, self._processes, strict=True):
            try:
                end.send(order)
            except OSError as error:
                raise OnboardError(_end_of(process)) from error


def _end_of(process: BaseProcess) -> str:
    """Return how a process ended that sent nothing. One that gives an exit code itself has told why where it is shown.

    Whoever is killed gives none: that is what a machine without memory does.
    """
    process.join(CLOSE_S)
    code = process.exitcode
    return ENDED if code is None or code < 0 else f"a collector's process ended with exit code {code}, told above"


def crew_of(
    make: Make[Brought], rules: Rules, network: PolicyNetwork, collectors: int, device: torch.device
) -> Crew[Brought]:
    """Return so many collectors in processes of their own; none is one in place, on the device."""
    if collectors == 0:
        return LocalCrew(make, rules, network, device)
    return ProcessCrew(make, rules, network, collectors)


def _network(widths: Widths, variant: Variant, weights: Weights) -> PolicyNetwork:
    network = PolicyNetwork(widths, variant)
    put_weights(network, weights)
    return network


def _work(
    end: Connection,
    parent: int,
    make: Make[Brought],
    rules: Rules,
    widths: Widths,
    variant: Variant,
    frozen: Weights,
    number: int,
) -> None:
    """Take orders until the other end is closed or the parent ends, and answer each, an opening by None.

    An error that the user can mend goes back as its line, to a trainer who waits for it instead of sending weights. One
    that nobody thought of ends the process with its traceback, and the trainer tells its exit code.
    """
    die_with_parent(parent)
    torch.set_num_threads(1)

    def opened(seed: Sequence[int]) -> Drives[Brought]:
        return make(rules, _network(widths, variant, frozen), seed, number, torch.device("cpu"))

    try:
        _serve(end, opened)
    except ConnectionError:
        return  # the trainer is gone
    except OnboardError as error:
        end.send(str(error))
    except (MemoryError, OSError, RuntimeError) as error:
        if not is_for_want_of_memory(error):
            raise
        end.send(LOWER)


def _serve(end: Connection, opened: Callable[[Sequence[int]], Drives[Brought]]) -> None:
    """Take orders until the other end is closed. Raises whatever goes wrong."""
    collector: Drives[Brought] | None = None
    while True:
        try:
            order, what = end.recv()
        except EOFError:
            return
        if order == "open":
            collector = opened(what)
            end.send(None)
        elif collector is not None:
            end.send(collector.collect(what))
