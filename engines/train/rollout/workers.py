"""Collectors in child processes: the trainer learns from one round while they drive the next.

The trainer sends the weights with each request. So the result depends on the number of collectors, never on timing.

A pool of `hil.jobs` does not fit: a collector keeps its drives from round to round.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

import torch

from engines.cli_options import is_out_of_memory
from engines.network.network import PolicyNetwork, Variant, Widths
from engines.train.rollout.collector import Rules
from engines.train.rollout.optimizer_step import Weights, is_learned, put_weights
from hil.jobs.process_pool import interrupts_ignored
from onboard.system.threads import die_with_parent
from onboard.values.errors import OnboardError

CLOSE_S = 10.0
LOWER = "out of memory: lower driving.lanes or imitation.collectors, reinforce.collectors"
ENDED = "a collector's process ended without an error message: most likely the machine ran out of memory"
Brought = TypeVar("Brought")
Brings = TypeVar("Brings", covariant=True)


class Drives(Protocol[Brings]):
    """Drives rounds, as `engines.train.rollout.collector.Collector` does."""

    def collect(self, weights: Weights) -> Brings:
        """Drive a round with these weights and return its result."""


Make = Callable[[Rules, PolicyNetwork, Sequence[int], int, torch.device], Drives[Brought]]
"""Makes a collector for a chapter: rules, network, seed, its number, device. Must be picklable."""


class Collectors(Protocol[Brought]):
    """All collectors of a chapter."""

    def open(self, seed: Sequence[int]) -> None:
        """Furnish the buildings of a chapter and place the robots."""

    def request(self, weights: Weights) -> None:
        """Start a round."""

    def result(self) -> list[Brought]:
        """Return the newest round of each collector. Raises OnboardError if a collector has failed."""

    def close(self) -> None:
        """End all collectors. Safe to call twice."""


class LocalCollector(Generic[Brought]):
    """One collector in the trainer's process."""

    def __init__(self, make: Make[Brought], rules: Rules, network: PolicyNetwork, device: torch.device) -> None:
        self._make, self._rules, self._device = make, rules, device
        self._network = PolicyNetwork(network.widths, network.variant).to(device)
        self._network.load_state_dict(network.state_dict())
        self._collector: Drives[Brought] | None = None
        self._round: list[Brought] = []

    def open(self, seed: Sequence[int]) -> None:
        """See `Collectors`."""
        self._collector = self._make(self._rules, self._network, seed, 0, self._device)

    def request(self, weights: Weights) -> None:
        """Drive a round at once."""
        if self._collector is None:
            raise OnboardError("the collectors have not been opened")
        self._round = [self._collector.collect(weights)]

    def result(self) -> list[Brought]:
        """Return the round."""
        if not self._round:
            raise OnboardError("no round was requested")
        return self._round

    def close(self) -> None:
        """Nothing to do."""


class ProcessCollectors(Generic[Brought]):
    """Collectors in child processes, on the CPU, one thread each."""

    def __init__(self, make: Make[Brought], rules: Rules, network: PolicyNetwork, collectors: int) -> None:
        context = multiprocessing.get_context("spawn")
        frozen = {name: value.cpu().numpy() for name, value in network.state_dict().items() if not is_learned(name)}
        self._ends: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for number in range(collectors):
            here, there = context.Pipe()
            given = (there, os.getpid(), make, rules, network.widths, network.variant, frozen, number)
            process = context.Process(target=_work, args=given, daemon=True)
            with interrupts_ignored():
                process.start()
            there.close()
            self._ends.append(here)
            self._processes.append(process)

    def open(self, seed: Sequence[int]) -> None:
        """Furnish in all processes and wait. Raises OnboardError with the message of the first failure."""
        self._send(("open", list(seed)))
        self._answers()

    def request(self, weights: Weights) -> None:
        """Start a round in all processes."""
        self._send(("round", dict(weights)))

    def result(self) -> list[Brought]:
        """Wait for all and return their rounds in order."""
        return self._answers()

    def close(self) -> None:
        """End the processes, also during a round. They hold no state that the trainer lacks."""
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
        """Return one answer of each process. A text is an error message."""
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
    """Return the reason why a process sent no answer.

    A process with an exit code has printed its traceback. The kernel kills a process without one, usually for memory.
    """
    process.join(CLOSE_S)
    code = process.exitcode
    return ENDED if code is None or code < 0 else f"a collector's process ended with exit code {code}, see above"


def make_collectors(
    make: Make[Brought], rules: Rules, network: PolicyNetwork, collectors: int, device: torch.device
) -> Collectors[Brought]:
    """Return collectors in child processes, or for 0 one collector in this process on the device."""
    if collectors == 0:
        return LocalCollector(make, rules, network, device)
    return ProcessCollectors(make, rules, network, collectors)


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
    """Serve orders until the pipe closes or the parent ends. The answer to "open" is None.

    An error that the user can mend is sent back as one line. Any other error ends the process with its traceback, and
    the trainer reports the exit code.
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
        if not is_out_of_memory(error):
            raise
        end.send(LOWER)


def _serve(end: Connection, opened: Callable[[Sequence[int]], Drives[Brought]]) -> None:
    """Serve orders until the pipe closes. Raises every error."""
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
