# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the checks beside this file share: the list of the project's files."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def list_files(root):
    """Paths relative to `root`, sorted: what git knows or would add; all files where git knows nothing."""
    try:
        listing = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout
        names = [name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = list(_walk(root))
    return sorted(pathlib.PurePosixPath(name) for name in set(names) if (root / name).is_file())


def _walk(root):
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [d for d in subfolders if not d.startswith((".", "build", "__pycache__"))]
        for file in files:
            yield pathlib.Path(folder, file).relative_to(root).as_posix()


def is_c_of_an_os(path):
    """Kernel or QEMU C, which follows another project's style."""
    return "linux" in path.parts or "qemu" in path.parts


# C for programs on the GPU.
C_HEADERS = {"guest_driver/umd/include/ts104_kernel.h"}


def has_c_style(path):
    """Also the headers that C and C++ share: the doors (*_abi.h) and the kernel's user-space API."""
    return (is_c_of_an_os(path) or path.name.endswith("_abi.h") or "uapi" in path.parts
            or str(path) in C_HEADERS)
