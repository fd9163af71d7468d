# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab bench`: measurements with the machine they were taken on.

  micro   the Google Benchmarks of the cores and the interpreter, in the tool box
  native  bare, passed-through and virtual GPU in one run of L1
  pin     pages pinned per second in L1, batched and not
  share   shares under every policy: the rig's figures, two guests in L1, the time of a decision
  tracing the driver's tracepoints, off and on, against a driver that has none
"""

import json
import os
import pathlib
import re
import tempfile
import time

import accel
import artifacts
import bench_share
import bench_tracing
import build
import cache as cache_module
import host
import setup
from errors import LabError

ORDER = ("micro", "native", "pin", "share", "tracing")


def run(names, json_path):
    """Runs the benchmarks `names` (all when empty); returns the exit status."""
    unknown = set(names) - set(ORDER)
    if unknown:
        raise LabError(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(ORDER)}")
    names = names or ORDER
    cache = cache_module.Cache()
    lab = setup.ensure(cache)
    status = 0
    with build.opened(lab, cache) as builder:
        report = {"machine": _machine(lab, cache)}
        if "micro" in names:
            report["micro"] = _micro(builder)
        wanted = [name for name in ("native", "pin") if name in names]
        if wanted:
            status, results = in_l1(lab, cache, builder, wanted, artifacts.device())
            report.update(results)
        if "share" in names:
            share_status, results = bench_share.run(lab, cache, builder)
            report.update(results)
            status = status or share_status
        if "tracing" in names:
            tracing_status, results = bench_tracing.run(lab, cache, builder)
            report.update(results)
            status = status or tracing_status
    text = json.dumps(report, indent=2) + "\n"
    if json_path:
        pathlib.Path(json_path).write_text(text, encoding="utf-8")
    print(text, end="")
    return status


def _machine(lab, cache):
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.M)
    kind, reason = accel.choose(lab, cache)
    return {
        "cpu": model[1] if model else "unknown",
        "cores": os.cpu_count(),
        "l1": kind,
        "why": reason,
        "date": time.strftime("%Y-%m-%d"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _micro(builder):
    results = {}
    with builder.busy():
        inside = builder.meson("release", build.RELEASE_OPTIONS)
        programs = sorted((builder.top / "out/release").rglob("*_bench"))
        for program in programs:
            name = program.name
            out = f"/turnstile/out/release/{name}.json"
            path = f"{inside}/{program.relative_to(builder.top / 'out/release')}"
            print(f"bench: {name}", flush=True)
            builder.must(
                [path, f"--benchmark_out={out}", "--benchmark_out_format=json"], f"bench-{name}"
            )
            report = cache_module.read_json(builder.top / f"out/release/{name}.json")
            results[name] = {
                entry["name"]: {
                    key: value
                    for key, value in entry.items()
                    if key in ("real_time", "time_unit", "items_per_second", "bytes_per_second")
                    or isinstance(value, float)
                    and key not in ("cpu_time",)
                }
                for entry in report["benchmarks"]
            }
    return results


def in_l1(lab, cache, builder, names, devices, seconds=5, timeout=900, put=None):
    """Runs l1/bench.py with the benchmarks `names`; returns (status, its report).

    `put`: {path in L1: source} of what they need besides the product.
    """
    product = builder.parts(build.PARTS, ["6.12"])
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "bench.json"
        request = host.Request(
            command="mkdir -p /lab/out && python3 /opt/turnstile/lab/bench.py "
            f"--seconds {seconds} --out /lab/out/bench.json {' '.join(names)}",
            bare=True,
            timeout=timeout,
            put={**artifacts.files(lab, product, "6.12"), **(put or {})},
            get={"/lab/out/bench.json": out},
            plugin=product.plugin,
            devices=devices,
        )
        outcome = host.run(lab, cache, request)
        for line in outcome.kernel_faults:
            print(f"lab: L1's kernel: {line}")
        status = outcome.status or (host.EXIT_KERNEL_FAULT if outcome.kernel_faults else 0)
        return status, cache_module.read_json(out)
