#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What a call of turnstile-smi costs with 16 vGPUs, natively: `smi_call.py PATH-OF-TURNSTILE-SMI`.

Prints JSON, milliseconds. The tree of files is that of the unit tests. `cpu`: user and system time of
a call, which a busy machine does not change much; `wall`: from fork to exit; `true`: the same of
/bin/true, which is what starting any process costs here.
"""

import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit/smi"))

import tree

VGPUS = 16
CALLS = 200


def cost(command):
    """{cpu, wall, wall_p95} of one call of `command`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    walls = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        walls.append(1000 * (time.perf_counter() - begin))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {
        "cpu": round(1000 * used / CALLS, 2),
        "wall": round(statistics.median(walls), 2),
        "wall_p95": round(sorted(walls)[int(0.95 * CALLS)], 2),
    }


def main():
    """Measures the program that the command line names."""
    files = tree.entries("first.tree")
    uuids = {match for path in files for match in re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]+){4}", path)}
    with tempfile.TemporaryDirectory() as root:
        tree.unpack(root, tree.multiplied(files, sorted(uuids)[-1], VGPUS))
        command = [sys.argv[1], "--root", root]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if shown.count("ts104_v") < VGPUS:
            sys.exit(f"smi_call.py: it does not show {VGPUS} vGPUs: {shown}")
        report = {"call": cost(command), "true": cost(["/bin/true"]), "load": os.getloadavg()[0]}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
