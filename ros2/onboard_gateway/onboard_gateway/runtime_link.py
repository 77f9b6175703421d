"""The socket to `onboard gateway`: packets of a topic, a source time and a serialised message."""

import json
import socket
import struct
import threading
import time

TIME = struct.Struct("<q")
MOST_BYTES = 1 << 20
RETRY_S = 0.5


class RuntimeLink:
    """Connects again and again, and gives each packet to `heard(topic, message)` in a thread of its own.

    found(types): a connection is there; types: topics with their ROS types, to and from the runtime
    lost(): it is gone
    """

    def __init__(self, path, found, heard, lost):
        self._path, self._found, self._heard, self._lost = path, found, heard, lost
        self._socket = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="runtime-link", daemon=True)
        self._thread.start()

    @property
    def connected(self):
        """Whether the other half is there."""
        return self._socket is not None

    def send(self, topic, message, written_ns=0):
        """Send a message; return False without a connection, or if the socket is full."""
        with self._lock:
            try:
                if self._socket is None:
                    return False
                self._socket.send(topic.encode() + b"\0" + TIME.pack(written_ns) + message, socket.MSG_DONTWAIT)
            except OSError:
                return False
        return True

    def close(self):
        """End the connection."""
        self._ended.set()
        with self._lock:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(2.0 * RETRY_S)

    def _run(self):
        while not self._ended.is_set():
            link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                link.connect(self._path)
                link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
                self._serve(link)
            except OSError:
                pass
            finally:
                link.close()
            self._ended.wait(RETRY_S)

    def _serve(self, link):
        hello = link.recv(MOST_BYTES)
        if not hello:
            return
        with self._lock:
            self._socket = link
        try:
            self._found(json.loads(hello))
            while packet := link.recv(MOST_BYTES):
                topic, _, rest = packet.partition(b"\0")
                self._heard(topic.decode(), rest[TIME.size :])
        finally:
            with self._lock:
                self._socket = None
            self._lost()


class StopWatch:
    """Repeats a stop when commands end without one: `stop()` until STOPPED_S after the last command plus SILENCE_S."""

    SILENCE_S = 0.3
    STOPPED_S = 1.0
    PERIOD_S = 0.05

    def __init__(self, stop):
        self._stop = stop
        self._last_s = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stop-watch", daemon=True)
        self._thread.start()

    def note(self):
        """Note a command."""
        self._last_s = time.monotonic()

    def close(self):
        """End, with a last stop if there ever was a command."""
        self._ended.set()
        self._thread.join()
        if self._last_s is not None:
            self._stop()

    def _run(self):
        while not self._ended.wait(self.PERIOD_S):
            if self._last_s is not None:
                silent_s = time.monotonic() - self._last_s
                if self.SILENCE_S - self.PERIOD_S <= silent_s < self.SILENCE_S + self.STOPPED_S:
                    self._stop()
