# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Lets the nth allocation of a task fail in the kernel, where turnstile.ko is on the stack.

The kernel's own framework does it (fault-injection.rst, fail-nth): slab and page allocations, and
copies from and to user memory.
"""

import os
import pathlib
import threading

_DEBUG = pathlib.Path("/sys/kernel/debug")
# So late that no call and no program comes to it.
NEVER = 1 << 30
_KINDS = ("failslab", "fail_page_alloc", "fail_usercopy")


def prepare():
    """Chooses where something may fail: in calls from turnstile.ko. Again after each insmod."""
    fields = next(
        line.split()
        for line in pathlib.Path("/proc/modules").read_text().splitlines()
        if line.startswith("turnstile ")
    )
    first, size = int(fields[5], 16), int(fields[1])
    for kind in _KINDS:
        directory = _DEBUG / kind
        for name, value in (
            ("require-start", hex(first)),
            ("require-end", hex(first + size)),
            ("stacktrace-depth", "32"),
            ("verbose", "0"),
            ("times", "-1"),
            ("probability", "0"),
            # Allocations that may wait are the usual ones here.
            ("ignore-gfp-wait", "N"),
            ("min-order", "0"),
        ):
            if (directory / name).exists():
                (directory / name).write_text(value)


class Nth:
    """Of the calling thread: the `count`th chance to fail, from `with` on. `hit`: it was met."""

    def __init__(self, count):
        self._count = count
        self.hit = False

    def __enter__(self):
        path = f"/proc/self/task/{threading.get_native_id()}/fail-nth"
        self._file = os.open(path, os.O_RDWR)
        os.write(self._file, str(self._count).encode())
        return self

    def __exit__(self, *_):
        self.hit = int(os.pread(self._file, 16, 0)) == 0
        os.pwrite(self._file, b"0", 0)
        os.close(self._file)


def arm_self(count):
    """For a process that is about to exec: the program's `count`th chance fails."""
    with open("/proc/thread-self/fail-nth", "wb", buffering=0) as stream:
        stream.write(str(count).encode())


def left(pid):
    """Waits for the end of a process; how far it was from the chance of arm_self(). Does not reap it."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return int(pathlib.Path(f"/proc/{pid}/fail-nth").read_text())
