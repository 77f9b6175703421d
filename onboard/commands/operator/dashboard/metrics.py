"""The robot for machines: `/metrics` in Prometheus's text format, and a webhook at each change of state."""

from __future__ import annotations

import http.client
import json
import queue
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from onboard.navigation.mission import State
from onboard.service.publisher import AGE, REASON
from onboard.values.errors import InputError

WORDS = tuple(one.value for one in State)
COUNTERS = ("ticks", "missed_slots", "decisions", "deadline_misses", "over_budget", "memory_resets", "recoveries")
TIMES = ("decision_p50_ms", "decision_p99_ms", "lateness_p50_ms", "lateness_p99_ms")
POST_S, MOST_WAITING = 5.0, 16


def metrics(status: dict[str, Any], values: dict[str, str], stopped: bool) -> str:
    """Return the page of `/metrics`. values: of `/diagnostics`; a value that is no number is left out."""
    return "".join(f"{line}\n" for line in _lines(status, values, stopped))


def _lines(status: dict[str, Any], values: dict[str, str], stopped: bool) -> Iterator[str]:
    yield "# TYPE onboard_up gauge"
    yield f"onboard_up {int(status['live'])}"
    yield "# TYPE onboard_stop_latched gauge"
    yield f"onboard_stop_latched {int(stopped)}"
    if not status["live"]:
        return
    yield "# TYPE onboard_state gauge"
    yield from (f'onboard_state{{state="{word}"}} {int(status["word"] == word)}' for word in WORDS)
    yield "# TYPE onboard_why gauge"
    yield from (f'onboard_why{{code="{row["code"]}"}} 1' for row in status["why"])
    numbers = {name: float(text) for name, text in values.items() if _is_number(text)}
    for name in COUNTERS:
        if name in numbers:
            yield f"# TYPE onboard_{name}_total counter"
            yield f"onboard_{name}_total {numbers[name]:g}"
    for name in TIMES:
        if name in numbers:
            yield f"# TYPE onboard_{name.removesuffix('_ms')}_seconds gauge"
            yield f"onboard_{name.removesuffix('_ms')}_seconds {numbers[name] / 1e3:g}"
    if "battery" in numbers:
        yield "# TYPE onboard_battery_ratio gauge"
        yield f"onboard_battery_ratio {numbers['battery']:g}"
    yield from _labelled(numbers, "onboard_input_age_seconds", "input", AGE, 1e-3)
    yield from _labelled(numbers, "onboard_commands_total", "reason", REASON, 1.0)


def _labelled(numbers: dict[str, float], metric: str, label: str, mark: str, unit: float) -> Iterator[str]:
    """Yield a metric of all values whose name has a mark at its start or end."""
    found = {
        name.replace(mark, ""): value for name, value in numbers.items() if name.startswith(mark) or name.endswith(mark)
    }
    if found:
        yield f"# TYPE {metric} {'counter' if metric.endswith('_total') else 'gauge'}"
    for name, value in found.items():
        text = name.replace("\\", "\\\\").replace('"', '\\"')
        yield f'{metric}{{{label}="{text}"}} {value * unit:g}'


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False


class Webhook:
    """Posts each change of state as JSON to a URL, from a thread of its own; the newest MOST_WAITING wait for it."""

    def __init__(self, url: str, robot: str) -> None:
        """Start the thread. Raises InputError for a URL that is not http or https."""
        try:
            parts = urllib.parse.urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isascii()
        except ValueError:  # of the host in brackets, or the port
            usable = False
        if not usable or re.search(r"[\s\x00-\x1f]", url):
            raise InputError(f"--webhook: {url[:100]!r} is not an http or https address")
        self._url, self._robot = url, robot
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(MOST_WAITING)
        threading.Thread(target=self._run, name="webhook", daemon=True).start()

    def note(self, status: dict[str, Any]) -> None:
        """Queue a status; drop the oldest if the receiver is too slow."""
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait({"robot": self._robot, **status})

    def _run(self) -> None:
        while True:
            data = json.dumps(self._waiting.get()).encode()
            request = urllib.request.Request(self._url, data, {"Content-Type": "application/json"})
            try:
                urllib.request.urlopen(request, timeout=POST_S).close()
            except (OSError, ValueError, http.client.HTTPException) as error:  # URLError is an OSError
                sys.stderr.write(f"warning: webhook {self._url}: {error}\n")
