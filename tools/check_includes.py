#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks what C++ without an operating system includes.

Freestanding code (common/, mdev_driver/core, guest_driver/core) is compiled into kernel modules: only
the part of the standard library that needs no runtime, and no header of an operating system.
qemu_device/core runs in user space and may use all of the standard library, but nothing of QEMU or
glib: the tests and the rig build it without either.
"""

import argparse
import pathlib
import re
import sys

import check_tree

FREESTANDING_STD = set("""
    array atomic bit compare concepts cstddef cstdint limits new optional span tuple type_traits utility
    """.split())
# Headers that C includes too (*_abi.h) choose by preprocessor; these are for C.
ABI_EXTRA = {"linux/types.h", "stdbool.h", "stddef.h", "stdint.h"}
OS_HEADER = re.compile(r"(linux|asm|uapi|drm|qemu|hw|qom|qapi|exec|sysemu|system|migration|glib)/|glib\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

FREESTANDING = ("common", "mdev_driver/core", "guest_driver/core")
USER_SPACE = ("qemu_device/core",)
# User space's own half of base.
HOSTED_FILES = {"common/base/src/user_runtime.cc"}


def is_in(path, folders):
    return any(path.is_relative_to(folder) for folder in folders)


def kind_of(path):
    """'freestanding', 'user', or None when the rule says nothing about this file."""
    if path.suffix not in (".h", ".cc", ".inc") or check_tree.is_c_of_an_os(path):
        return None
    if str(path) in HOSTED_FILES or is_in(path, USER_SPACE):
        return "user"
    return "freestanding" if is_in(path, FREESTANDING) else None


def complaint_about(path, kind, quote, header):
    """Why `path` may not include `header`; None when it may."""
    if quote == '"':
        return "a header of an operating system" if OS_HEADER.match(header) else None
    if path.name.endswith("_abi.h") and header in ABI_EXTRA:
        return None
    if kind == "freestanding" and header not in FREESTANDING_STD:
        return "not in the freestanding part of the standard library"
    if OS_HEADER.match(header):
        return "a header of an operating system"
    return None


def check(root):
    """Lines "file:line: what" for every include that breaks the rule."""
    complaints = []
    for path in check_tree.list_files(root):
        kind = kind_of(path)
        if kind is None:
            continue
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            what = match and complaint_about(path, kind, *match.groups())
            if what:
                complaints.append(f"{path}:{number}: includes {match.group(2)}: {what}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=check_tree.ROOT)
    complaints = check(parser.parse_args().root)
    print("\n".join(complaints) or "includes: ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
