# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes initramfs archives (cpio "newc"), so that no image needs a mount or a fake root."""

import os
import stat


class Cpio:
    """A cpio archive in memory; parents are made as needed, owners are root.

    The kernel accepts several archives after another, so results can simply be concatenated.
    """

    def __init__(self):
        self._out = bytearray()
        self._seen = set()
        self._inode = 1

    def directory(self, path, mode=0o755):
        """Adds a directory and its parents."""
        path = path.strip("/")
        if not path or path in self._seen:
            return
        self._parents(path)
        self._entry(path, stat.S_IFDIR | mode, b"")

    def file(self, path, data, mode=0o644):
        """Adds a regular file with the bytes `data`."""
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFREG | mode, data)

    def copy(self, path, source):
        """Adds the file `source` with its permission bits."""
        with open(source, "rb") as stream:
            self.file(path, stream.read(), stat.S_IMODE(os.stat(source).st_mode))

    def symlink(self, path, target):
        """Adds a symbolic link."""
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def device(self, path, mode, major, minor):
        """Adds a character device."""
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFCHR | mode, b"", major, minor)

    def finish(self):
        """Returns the archive, padded so that another one may follow."""
        self._entry("TRAILER!!!", 0, b"")
        self._out += b"\0" * (-len(self._out) % 512)
        return bytes(self._out)

    def _parents(self, path):
        parent = os.path.dirname(path)
        if parent:
            self.directory(parent)

    def _entry(self, name, mode, data, major=0, minor=0):
        if name in self._seen:
            raise ValueError(f"{name} is already in the archive")
        self._seen.add(name)
        raw = name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = (self._inode, mode, 0, 0, links, 0, len(data), 0, 0, major, minor, len(raw), 0)
        self._inode += 1
        self._out += b"070701" + b"".join(b"%08X" % field for field in fields)
        self._out += raw
        self._out += b"\0" * (-len(self._out) % 4)
        self._out += data
        self._out += b"\0" * (-len(self._out) % 4)
