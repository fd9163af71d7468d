# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab bench`: measurements with the machine they were taken on.

  micro   the Google Benchmarks of the cores and the interpreter, in the tool box
  native  bare, passed-through and virtual GPU in one run of L1
  pin     pages pinned per second in L1, batched and not
"""

import json
import os
import pathlib
import re
import tempfile
import time

import accel
import artifacts
import build
import cache as cache_module
import host
import setup
from errors import LabError

ORDER = ("micro", "native", "pin")

_MICRO_OPTIONS = ["-Dbuildtype=release", "-Dtests=true", "-Dbenchmarks=enabled"]


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
        in_l1 = [name for name in ("native", "pin") if name in names]
        if in_l1:
            status, results = _in_l1(lab, cache, builder, in_l1)
            report.update(results)
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
        inside = builder.meson("release", _MICRO_OPTIONS)
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


def _in_l1(lab, cache, builder, names):
    product = builder.parts(build.PARTS, ["6.12"])
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "bench.json"
        request = host.Request(
            command="mkdir -p /lab/out && python3 /opt/turnstile/lab/bench.py "
            f"--out /lab/out/bench.json {' '.join(names)}",
            bare=True,
            timeout=900,
            put=artifacts.files(lab, product, "6.12"),
            get={"/lab/out/bench.json": out},
            plugin=product.plugin,
            devices=artifacts.device(),
        )
        outcome = host.run(lab, cache, request)
        for line in outcome.kernel_faults:
            print(f"lab: L1's kernel: {line}")
        status = outcome.status or (host.EXIT_KERNEL_FAULT if outcome.kernel_faults else 0)
        return status, cache_module.read_json(out)
