# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Folders that look like a machine's /sys and /proc, from the listings in data/.

A listing has a line for each file, `PATH = "text"` (a JSON string), and for each symbolic link,
`PATH -> TARGET`. They were read in the lab (6.12): one vGPU open in a QEMU, one computing. Of /proc
they have these two processes and the first two; second.tree is what differed 2.75 s later.
"""

import json
import os
import pathlib
import re

DATA = pathlib.Path(__file__).resolve().parent / "data"
GPU = "0000:00:10.0"


def entries(name):
    """{path: ("=" or ">", text or target)} of a listing in data/."""
    found = {}
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"(/\S*) (=|->) (.*)", line)
        if match:
            path, kind, rest = match.groups()
            found[path] = ("=", json.loads(rest)) if kind == "=" else (">", rest)
    return found


def unpack(root, files):
    """Makes the entries `files` below the folder `root`; what was there before is replaced."""
    for path, (kind, value) in files.items():
        target = pathlib.Path(f"{root}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.exists():
            target.unlink()
        if kind == "=":
            target.write_bytes(value.encode("latin1"))
        else:
            os.symlink(value, target)


def multiplied(files, uuid, count):
    """The entries with `count` copies of the vGPU `uuid` in place of all vGPUs; nobody has them open."""
    others = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    result = {
        path: (kind, value)
        for path, (kind, value) in files.items()
        if not others.search(path) and not value.startswith("/dev/vfio/")
    }
    own = {path: entry for path, entry in files.items() if uuid in path}
    for number in range(count):
        copy = uuid[:-2] + f"{number:02x}"
        for path, (kind, value) in own.items():
            result[path.replace(uuid, copy)] = (kind, value.replace(uuid, copy))
    return result
