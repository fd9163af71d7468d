# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab bench share`: what was ordered against what was measured, for every scheduling policy.

The rig's figures are exact (a modelled clock); those of the lab are two guests on two vGPUs of one
L1; the time of a decision is a Google Benchmark. tests/bench/plot_share.py draws the result.
"""

import concurrent.futures
import json
import os

import artifacts
import bench
import build
import cache as cache_module
from errors import LabError
from progress import Progress

POLICIES = ("best_effort", "equal_share", "fixed_share", "weighted", "latency")

_RIG = "tests/rig/rig_share_figures"
_DECISIONS = "tests/bench/sched_bench"
_SECONDS = 10  # of every window, modelled in the rig and real in the lab
_LAB_TIMEOUT = 1800


def run(lab, cache, builder):
    """Measures everything; returns (status, report)."""
    progress = Progress(600 + 120 * len(POLICIES) + 30)
    report = {}
    try:
        with builder.busy():
            progress.step("compiling the rig", 600)
            builder.configured("release", build.RELEASE_OPTIONS)
            builder.compile("release", [_RIG, _DECISIONS])
            progress.step_done()
            progress.step("rig", 120 * len(POLICIES))
            report.update(_rig(builder, progress))
            progress.step_done(f"{len(report['rig'])} points")
            progress.step("time of a decision", 30)
            report.update(_decisions(builder))
            progress.step_done()
    finally:
        progress.close()
    # From here on L1 says itself which step it is at.
    devices = artifacts.device(engine_mhz=1, sms=11)
    status, results = bench.in_l1(
        lab, cache, builder, ["share"], devices, seconds=_SECONDS, timeout=_LAB_TIMEOUT
    )
    report["lab"] = results["share"]
    return status, report


def _rig(builder, progress):
    """The rig's part of the report: one process per policy, as many at once as there are cores."""

    def figures(policy):
        path = builder.top / f"out/release/share-{policy}.json"
        with open(path, "wb") as stream:
            argv = [f"/turnstile/out/release/{_RIG}", str(_SECONDS), policy]
            status = builder.in_toolbox(argv, f"bench-share-{policy}", stdout=stream)
        if status != 0:
            raise LabError(f"{_RIG} {policy}: status {status}: {path.read_text()[-500:]}")
        return json.loads(path.read_text(encoding="utf-8"))

    parts = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {pool.submit(figures, policy): policy for policy in POLICIES}
        for job in concurrent.futures.as_completed(jobs):
            parts[jobs[job]] = job.result()
            progress.part(len(parts) / len(POLICIES))
    first = parts[POLICIES[0]]
    return {
        "rig": [point for policy in POLICIES for point in parts[policy]["rig"]],
        "solo_kernels_per_s": first["solo_kernels_per_s"],
        "light_solo_p99_us": first["light_solo_p99_us"],
        "switch_register_accesses": first["switch_register_accesses"],
    }


def _decisions(builder):
    """CPU time of one decision by number of vGPUs; `decision_ns` is the slowest policy's."""
    out = "out/release/decisions.json"
    builder.must(
        [
            f"/turnstile/out/release/{_DECISIONS}",
            "--benchmark_filter=Decision/",
            f"--benchmark_out=/turnstile/{out}",
            "--benchmark_out_format=json",
        ],
        "bench-decisions",
    )
    policies = {}
    for entry in cache_module.read_json(builder.top / out)["benchmarks"]:
        _, policy, *count = entry["run_name"].split("/")
        found = policies.setdefault(policy, {"ns": {}})
        if entry["run_type"] == "iteration":
            found["ns"][count[0]] = round(entry["cpu_time"], 1)
        elif entry["aggregate_name"] == "BigO":
            found["big_o"] = entry["big_o"]
    counts = next(iter(policies.values()))["ns"]
    for found in policies.values():
        found["growth"] = round(found["ns"]["1024"] / found["ns"]["8"], 2)
    slowest = {count: max(found["ns"][count] for found in policies.values()) for count in counts}
    return {"decision_ns": slowest, "decision": policies}
