# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The lab's cache, outside the clone: what takes time to make, keyed by what it is made of."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import time

from errors import LabError

_MIN_FREE_GIB = 8


def digest(parts):
    """A short hash of strings, bytes and files (pathlib.Path: their contents)."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, pathlib.Path):
            part = part.read_bytes()
        elif isinstance(part, str):
            part = part.encode()
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()[:12]


class Cache:
    """Directories under ${TURNSTILE_CACHE:-/var/cache/turnstile}.

    A finished directory `NAME-KEY` is complete and never changes; one that is being made ends in
    `.partial` and is thrown away at the next try.
    """

    def __init__(self):
        self.top = pathlib.Path(
            os.environ.get("TURNSTILE_CACHE") or "/var/cache/turnstile"
        ).resolve()
        if len(str(self.top)) > 60:
            raise LabError(
                f"TURNSTILE_CACHE={self.top} is too long: sockets below it have 107 bytes.\n"
                "Choose a path of at most 60 characters."
            )
        for name in ("logs", "run", "locks"):
            (self.top / name).mkdir(parents=True, exist_ok=True)

    def check_space(self):
        """Raises LabError when the file system cannot hold a lab."""
        free = shutil.disk_usage(self.top).free / 2**30
        if free < _MIN_FREE_GIB:
            raise LabError(
                f"{self.top} has {free:.1f} GiB free, the lab needs {_MIN_FREE_GIB}.\n"
                "Make room or set TURNSTILE_CACHE to a directory on a larger disk."
            )

    @contextlib.contextmanager
    def lock(self, name):
        """Holds the lock file `name`; waits for other labs, and says so when that takes longer."""
        with open(self.top / "locks" / name, "w", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"lab: waiting for another lab that holds {stream.name}", flush=True)
                fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def try_lock(self, name):
        """Like lock(), but does not wait: yields whether it is held."""
        with open(self.top / "locks" / name, "w", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield True
            except BlockingIOError:
                yield False

    def path(self, name, key):
        """Where the finished directory is or will be."""
        return self.top / f"{name}-{key}"

    def make(self, name, key, build):
        """Returns the directory `NAME-KEY`, calling `build(directory)` when it does not exist yet.

        `build` may raise; the half-made directory is then removed by the next call.
        """
        path = self.path(name, key)
        if path.is_dir():
            os.utime(path)
            return path
        partial = path.with_name(path.name + ".partial")
        remove_tree(partial)
        partial.mkdir()
        build(partial)
        partial.rename(path)
        return path

    def discard_old(self, name, keep, days):
        """Removes directories `NAME-*` unused for `days`, except the one called `keep`."""
        for path in self.top.glob(f"{name}-*"):
            if path != keep and time.time() - path.stat().st_mtime > days * 86400:
                remove_tree(path)

    @contextlib.contextmanager
    def run_directory(self):
        """A directory for one run, removed afterwards; those of labs that were killed are swept."""
        runs = self.top / "run"
        for stale in runs.iterdir():
            if not _is_in_use(stale):
                remove_tree(stale)
        path = pathlib.Path(tempfile.mkdtemp(prefix="r", dir=runs))
        with open(path / "owner", "w", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            try:
                yield path
            finally:
                remove_tree(path)


def _is_in_use(run):
    """Whether a living lab owns the run directory (its owner file is locked, or is about to be)."""
    try:
        with open(run / "owner", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        try:
            return time.time() - run.stat().st_mtime < 60
        except FileNotFoundError:
            return True


def remove_tree(path):
    """Removes a directory tree that holds no mounts, or a link; it need not exist."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path):
        os.unlink(path)
        return
    mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8")
    if any(line.split()[1].startswith(f"{path}/") for line in mounts.splitlines()):
        raise LabError(f"something is mounted below {path}; unmount it first")
    shutil.rmtree(path)


def read_json(path):
    """The contents of a JSON file."""
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def write_json(path, value):
    """Writes `value` as indented JSON."""
    pathlib.Path(path).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
