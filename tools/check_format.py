#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks the format of all C++ with clang-format; --fix formats it in place.

Releases of clang-format disagree on some lines, so one is the rule: VERSION. With another the check is
skipped (exit status 77); the lab's tool box has the right one.

Kernel and QEMU C, headers shared with it, and generated files are left alone: they follow other rules.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import check_style
import check_tree


VERSION = 19
SKIPPED = 77


def version_of(program):
    """The major release of this clang-format."""
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"version (\d+)", text)[1])


def formatted_files(root):
    for path in check_tree.list_files(root):
        if path.suffix not in (".h", ".cc") or check_tree.has_c_style(path):
            continue
        with (root / path).open() as file:
            head = "".join(file.readline() for _ in range(3))
        if not check_style.GENERATED.search(head):
            yield str(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=check_tree.ROOT)
    parser.add_argument("--clang-format", default="clang-format")
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("files", nargs="*", help="only these, relative to the root")
    arguments = parser.parse_args()
    files = arguments.files or list(formatted_files(arguments.root))
    mode = ["-i"] if arguments.fix else ["--dry-run", "-Werror"]
    if not files:
        return 0
    found = version_of(arguments.clang_format)
    if found != VERSION:
        print(f"clang-format {found} found, {VERSION} is the rule: skipped")
        return SKIPPED
    return subprocess.run([arguments.clang_format, *mode, *files], cwd=arguments.root).returncode


if __name__ == "__main__":
    sys.exit(main())
