# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Progress of a list of steps: a bar on a terminal, plain lines elsewhere."""

import shutil
import sys
import threading
import time


class Progress:
    """Shows where a sequence of weighted steps stands.

    A thread redraws the bar once a second, so that the elapsed time runs while a step is silent.
    Everything goes to stderr; stdout stays free for results.
    """

    def __init__(self, total_weight):
        self._total = max(total_weight, 1)
        self._done = 0.0
        self._weight = 0.0
        self._part = 0.0
        self._name = ""
        self._begin = time.monotonic()
        self._step_begin = self._begin
        self._tty = sys.stderr.isatty()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if self._tty:
            self._thread.start()

    def step(self, name, weight):
        """Begins the step `name`, which is about `weight` seconds of work."""
        with self._lock:
            self._name, self._weight, self._part = name, weight, 0.0
            self._step_begin = time.monotonic()
        if self._tty:
            self._draw()
        else:
            print(f"lab: {name} ...", file=sys.stderr, flush=True)

    def part(self, fraction):
        """Says how much of the current step is done, from 0 to 1."""
        with self._lock:
            self._part = max(self._part, min(fraction, 1.0))

    def step_done(self, note=""):
        """Ends the current step and leaves a line about it."""
        with self._lock:
            self._done += self._weight
            seconds = time.monotonic() - self._step_begin
            text = f"lab: {self._name}: {note or 'done'} ({seconds:.0f} s)"
            self._weight = self._part = 0.0
        self._line(text)

    def close(self):
        """Removes the bar."""
        self._stop.set()
        if self._tty:
            self._thread.join()
            self._clear()

    def _run(self):
        while not self._stop.wait(1.0):
            self._draw()

    def _draw(self):
        with self._lock:
            now = time.monotonic()
            # A silent step creeps towards its expected length and never quite gets there.
            spent = now - self._step_begin
            guess = spent / (spent + self._weight) if self._weight else 0.0
            fraction = (self._done + self._weight * max(self._part, guess)) / self._total
            elapsed = int(now - self._begin)
            name = self._name
        width = 24
        full = min(int(fraction * width), width)
        bar = "#" * full + "-" * (width - full)
        columns = shutil.get_terminal_size((100, 24)).columns
        text = f"[{bar}] {elapsed // 60}:{elapsed % 60:02d}  {name}"
        sys.stderr.write("\r\033[K" + text[: columns - 1])
        sys.stderr.flush()

    def _clear(self):
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()

    def _line(self, text):
        if self._tty:
            self._clear()
        print(text, file=sys.stderr, flush=True)
