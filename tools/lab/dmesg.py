# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Judges a kernel log: which lines mean that something in the kernel went wrong."""

import re

_BAD = re.compile(
    r"WARNING: |\bBUG: |\bBUG\b.* at |KASAN|KCSAN|UBSAN|\bOops\b|Call Trace:|Unpatched|"
    r"rcu:? .*(stall|detected)|rcu_.* (self-)?detected|lockdep|possible (circular|recursive)|"
    r"general protection fault|Kernel panic|blocked for more than|refcount_t:|"
    r"list_(add|del) corruption|"
    r"unable to handle|scheduling while atomic|sleeping function called|"
    r"DMAR: .*fault|AMD-Vi: .*FAULT|"
    r"vfio.*(leak|BUG)|segfault at|Loading of unsigned module|Unknown symbol|"
    r"disagrees about version of symbol"
)

# Lines that match the above and are not a fault of anybody here.
_HARMLESS = re.compile(
    # Announces the watchdogs at boot.
    r"rcu: .*(Adjusting|expedited|configured|dynticks|offloaded|lockdep checking)|"
    r"RCU (restricting|Tasks|event tracing)"
)


def bad_lines(log):
    """The lines of the kernel log `log` that show a kernel fault, in order."""
    return [
        line.strip()
        for line in log.splitlines()
        if _BAD.search(line) and not _HARMLESS.search(line)
    ]
