# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab demo`: two virtual machines share one TS104; what they did, as a table and as JSON."""

import json
import pathlib
import sys
import tempfile
import time

import artifacts
import build
import cache as cache_module
import host
import setup
from errors import LabError

_MAX_GUESTS = 16


def run(count, json_path):
    """Runs the demo with `count` guests; returns the exit status."""
    if not 1 <= count <= _MAX_GUESTS:
        raise LabError(f"--guests {count}: a TS104 has 1 to {_MAX_GUESTS} vGPUs")
    begin = time.monotonic()
    cache = cache_module.Cache()
    lab = setup.ensure(cache)
    with build.opened(lab, cache) as builder, tempfile.TemporaryDirectory() as directory:
        product = builder.parts(build.PARTS, ["6.12"])
        out = pathlib.Path(directory) / "demo.json"
        request = host.Request(
            command=f"mkdir -p /lab/out && python3 /opt/turnstile/lab/demo.py --guests {count} "
            "--out /lab/out/demo.json",
            put=artifacts.files(lab, product, "6.12"),
            get={"/lab/out/demo.json": out},
            timeout=420,
            memory_mib=2048 + 512 * count,
            plugin=product.plugin,
            devices=artifacts.device(),
        )
        print("lab: booting the KVM host", file=sys.stderr, flush=True)
        outcome = host.run(lab, cache, request)
        report = json.loads(out.read_text(encoding="utf-8"))
    report = {"wall_s": round(time.monotonic() - begin, 1), **report}
    if json_path:
        pathlib.Path(json_path).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    _print(report)
    for line in outcome.kernel_faults:
        print(f"lab: L1's kernel: {line}", file=sys.stderr)
    return outcome.status or (host.EXIT_KERNEL_FAULT if outcome.kernel_faults else 0)


def _print(report):
    print(f"policy {report['policy']}, {report['wall_s']} s in all")
    for guest in report["guests"]:
        names = " ".join(
            f"{p['name']}:{'ok' if p['verified'] else 'WRONG'}" for p in guest["programs"]
        )
        print(f"\n{guest['type']}  {guest['uuid']}\n  {names}")
        print(
            f"  submissions {guest['submissions']}, exits per submission in steady state "
            f"{guest['exits_per_submission']}, exits in all {guest['csr_exits_total']}\n"
            f"  interrupts {guest['interrupts_injected']} "
            f"with {guest['interrupt_exits_total']} exits, GPU time {guest['gpu_time_ns'] / 1e6:.1f} ms, pages pinned {guest['pages_pinned']}, "
            f"host memory {guest['host_memory_bytes'] // 1024} KiB"
        )
