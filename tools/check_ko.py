#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks a kernel module that has C++ inside for what Kbuild does not refuse itself.

A global constructor would load and never run; an object that missed objtool would load and warn at
the first return; a section twice is refused by some kernels only. Why: docs/kernel_cxx.md.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

FORBIDDEN_SECTIONS = {
    ".init_array": "global constructors, which the kernel does not run",
    ".fini_array": "global destructors, which the kernel does not run",
    ".ctors": "global constructors, which the kernel does not run",
    ".dtors": "global destructors, which the kernel does not run",
    ".eh_frame": "unwind tables of the C++ runtime",
    ".gcc_except_table": "exception handlers",
}
# Sections that must be there when the kernel has any of the options.
SECTIONS_BY_CONFIG = {
    ".orc_unwind": ("CONFIG_UNWINDER_ORC",),
    ".return_sites": ("CONFIG_RETHUNK", "CONFIG_MITIGATION_RETHUNK"),
    ".retpoline_sites": ("CONFIG_RETPOLINE", "CONFIG_MITIGATION_RETPOLINE"),
}
CXX_RUNTIME = re.compile(
    r"_Z|__cxa_|__gxx_|_Unwind_|__dso_handle$|atexit$|__popcount[sd]i2$|__u?(div|mod)[dt]i3$")
# What a C++ object may use beside other C++ objects: the doors (ts_*, tsg_*, tsm_*) and what the compiler calls.
DOORS = re.compile(
    r"(ts|tsg|turnstile)_\w+$|mem(cpy|set|move|cmp)$|__mem(cpy|set|move)$|__x86_|__fentry__$|mcount$|"
    r"__stack_chk_|__ref_stack_chk_guard$|__(asan|kasan|hwasan|ubsan|sanitizer|tsan|kcsan)_|__kcfi_|"
    r"_GLOBAL_OFFSET_TABLE_$|__SCT__|return_thunk$|__warn_thunk$")
OBJTOOL_LINE = re.compile(r"\bobjtool\b.*:|: (warning|error): objtool")


class Object:
    """Sections and symbols of an ELF file, as binutils print them."""

    def __init__(self, path):
        self.path = path
        headers = self._run("readelf", "-SW", path)
        self.sections = re.findall(r"^\s*\[\s*\d+\]\s+(\S+)\s+[A-Z_0-9]+\s", headers, re.M)
        self.has_groups = "There are no section groups" not in self._run("readelf", "-gW", path)
        symbols = [line.split() for line in self._run("nm", path).splitlines()]
        self.undefined = {s[-1] for s in symbols if s[-2] in "Uwv"}
        self.defined = {s[-1] for s in symbols if s[-2] not in "Uwv"}

    @staticmethod
    def _run(*command):
        return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                              text=True).stdout


def read_config(path):
    """Names of the options that are set in a kernel's .config or auto.conf."""
    return set(re.findall(r"^(CONFIG_\w+)=[ym]", path.read_text(), re.M))


def check_module(module, config):
    problems = []
    for section, why in FORBIDDEN_SECTIONS.items():
        if any(name == section or name.startswith(section + ".") for name in module.sections):
            problems.append(f"section {section}: {why}")
    for name, count in collections.Counter(module.sections).items():
        if count > 1:
            problems.append(f"section {name} is there {count} times: --force-group-allocation missing")
    if module.has_groups:
        problems.append("section groups are left: --force-group-allocation missing")
    for section, options in SECTIONS_BY_CONFIG.items():
        if config & set(options) and section not in module.sections:
            problems.append(f"no section {section}, which this kernel needs: objtool did not run")
    for symbol in sorted(module.undefined):
        if CXX_RUNTIME.match(symbol):
            problems.append(f"needs {symbol} of the C++ runtime")
    return problems


def check_core(objects):
    """The C++ objects together may need only each other and the doors."""
    defined = set().union(*(o.defined for o in objects))
    problems = []
    for o in objects:
        for symbol in sorted(o.undefined - defined):
            if not DOORS.match(symbol):
                problems.append(f"{o.path}: needs {symbol}, past the host interface")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=pathlib.Path, help="the .ko")
    parser.add_argument("--config", type=pathlib.Path, required=True,
                        help=".config or include/config/auto.conf of the kernel it was built for")
    parser.add_argument("--core-objects", type=pathlib.Path,
                        help="folder with the module's *.cc.o, to check what they call")
    parser.add_argument("--log", type=pathlib.Path, help="output of the build: objtool must be silent")
    arguments = parser.parse_args()
    for path in (arguments.module, arguments.config, arguments.log):
        if path and not path.is_file():
            parser.error(f"no file {path}")

    problems = check_module(Object(arguments.module), read_config(arguments.config))
    if arguments.core_objects:
        objects = [Object(path) for path in sorted(arguments.core_objects.rglob("*.cc.o"))]
        problems += check_core(objects) if objects else [f"no *.cc.o in {arguments.core_objects}"]
    if arguments.log:
        problems += [line for line in arguments.log.read_text().splitlines() if OBJTOOL_LINE.search(line)]
    for problem in problems:
        print(f"{arguments.module.name}: {problem}")
    if not problems:
        print(f"{arguments.module.name}: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
