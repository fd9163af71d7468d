# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Kernel modules of an unpacked Debian kernel: what each needs, and its plain contents."""

import lzma
import pathlib
import re


def _stem(path):
    """The module's name as modprobe knows it: no folder, no endings, dashes as underscores."""
    return re.sub(r"\.ko(\.xz)?$", "", pathlib.PurePath(path).name).replace("-", "_")


class ModuleTree:
    """/lib/modules/RELEASE of one kernel."""

    def __init__(self, modules_dir):
        self._dir = pathlib.Path(modules_dir)
        self._needs = {}
        self._path = {}
        for line in (self._dir / "modules.dep").read_text(encoding="utf-8").splitlines():
            path, _, needs = line.partition(":")
            self._path[_stem(path)] = path
            self._needs[_stem(path)] = [_stem(need) for need in needs.split()]
        self._soft = {}
        for line in (self._dir / "modules.softdep").read_text(encoding="utf-8").splitlines():
            match = re.match(r"softdep (\S+) pre: (.*?)(?: post:.*)?$", line)
            if match:
                self._soft[_stem(match[1])] = [_stem(name) for name in match[2].split()]

    def closure(self, names):
        """`names` and all they need, in an order in which insmod works; without built-in ones."""
        order = []

        def visit(name):
            name = _stem(name)
            if name in order or name not in self._path:
                return
            for need in self._soft.get(name, []) + list(reversed(self._needs[name])):
                visit(need)
            order.append(name)

        for name in names:
            visit(name)
        return order

    def read(self, name):
        """The module's uncompressed bytes."""
        data = (self._dir / self._path[name]).read_bytes()
        return lzma.decompress(data) if self._path[name].endswith(".xz") else data


def depends_of(module_file):
    """The names in the module's own `depends=` tag."""
    match = re.search(rb"\0depends=([^\0]*)\0", pathlib.Path(module_file).read_bytes())
    return [name for name in match[1].decode().split(",") if name] if match else []
