#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The demo inside L1: vGPUs by UUID, one guest on each, GPU programs on real data in all at once.

Writes what `./lab demo --json` promises, less the wall time, to --out. Exits 0 when every program
of every guest was verified.
"""

import argparse
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, "/opt/turnstile/lab")

import l2
import vgpu

TIMEOUT_S = 240
_TYPES = (1, 2, 4, 8, 16)
# Submissions of the steady run, and how many at its ends count as set-up and tear-down.
_STEADY, _EDGE = 300, 20

_COMMAND = f"""
ts104-run --json all >/run/all.json
status=$?
echo '@@ all'; cat /run/all.json; echo '@@ end'
[ $status = 0 ] || exit $status
echo '@@ before'; sleep 1
ts104-run --json --iterations {_STEADY} vecadd >/run/steady.json || exit
echo '@@ steady'; cat /run/steady.json; echo '@@ end'
sleep 1
"""


class Tenant:
    """One guest with its vGPU, and the host's counters while its steady run went on."""

    def __init__(self, index, type_id):
        self.type_id = type_id
        self.uuid = vgpu.create(type_id)
        self.guest = l2.Guest(f"guest{index}", _COMMAND, l2.mdev(self.uuid), memory_mib=384)
        self.samples = []

    def poll(self):
        """Takes the counters once the steady run is near; returns whether the guest lives."""
        if self.guest.process.poll() is not None:
            return False
        if b"@@ before" in self.guest.output():
            self.samples.append(vgpu.counters(self.uuid))
        return True

    def report(self, timeout):
        """This guest's part of the demo's JSON. Raises GuestError or RuntimeError."""
        status, output = self.guest.wait(timeout)
        text = output.decode(errors="replace")
        if status != 0:
            raise RuntimeError(f"{self.guest.name}: exit status {status}\n{text[-2000:]}")
        programs = _section(text, "all")["programs"]
        final = self._last_open()
        return {
            "uuid": self.uuid,
            "type": self.type_id,
            "programs": [{"name": p["name"], "verified": p["verified"]} for p in programs],
            "submissions": sum(
                part["submissions"]
                for name in ("all", "steady")
                for part in _section(text, name)["programs"]
            ),
            "csr_exits_total": final["csr_exits_total"],
            "exits_per_submission": self._exits_per_submission(text),
            "interrupts_injected": final["interrupts_injected"],
            "interrupt_exits_total": final["interrupt_tree_accesses"],
            "gpu_time_ns": final["gpu_time_ns"],
            "pages_pinned": final["pages_pinned_total"],
            "host_memory_bytes": final["memory_bytes"],
        }

    def _last_open(self):
        """The last counters before the guest closed its vGPU, which resets the GPU time."""
        if not self.samples:
            raise RuntimeError("the guest ended before its steady run")
        return max(self.samples, key=lambda sample: sample["interrupts_injected"])

    def _exits_per_submission(self, text):
        """Exits between two moments of the steady run, by the submissions made meanwhile.

        Every submission ends in an interrupt, which tells when set-up is over. What interrupts cost
        themselves (accesses to the interrupt tree) is counted apart.
        """
        before, after = (s["interrupts_injected"] for s in (self.samples[0], self.samples[-1]))
        inside = [
            sample
            for sample in self.samples
            if before + _EDGE <= sample["interrupts_injected"] <= after - _EDGE
        ]
        if len(inside) < 2:
            raise RuntimeError("the steady run was too short to be measured")
        first, last = inside[0], inside[-1]
        interrupts = last["interrupts_injected"] - first["interrupts_injected"]
        run = _section(text, "steady")["programs"][0]["submissions"]
        submissions = interrupts * run / (after - before)
        exits = _exits_without_interrupts(last) - _exits_without_interrupts(first)
        return round(exits / submissions, 4) if submissions else None


def _exits_without_interrupts(counters):
    return counters["csr_exits_total"] - counters["interrupt_tree_accesses"]


def _section(text, name):
    """The JSON between the marks `@@ name` and `@@ end`."""
    match = re.search(rf"^@@ {name}$(.*?)^@@ end$", text, re.M | re.S)
    if not match:
        raise RuntimeError(f"the guest's output has no part '{name}':\n{text[-2000:]}")
    return json.loads(match[1])


def run(count, timeout=TIMEOUT_S):
    """Runs `count` guests at once, for `timeout` seconds at most; returns (report, problems)."""
    type_id = f"turnstile-ts104_v{next(n for n in _TYPES if n >= count)}"
    begin = time.monotonic()
    tenants = [Tenant(index, type_id) for index in range(count)]
    for tenant in tenants:
        print(f"guest: {type_id} {tenant.uuid}", flush=True)
    while any([tenant.poll() for tenant in tenants]):
        if time.monotonic() - begin > timeout:
            break
        time.sleep(0.05)
    guests, problems = [], []
    for tenant in tenants:
        try:
            guests.append(tenant.report(timeout))
        except (l2.GuestError, RuntimeError, KeyError, ValueError) as error:
            problems.append(f"{tenant.guest.name}: {type(error).__name__}: {error}")
            problems.append(f"{tenant.guest.name}: {vgpu.counters(tenant.uuid)}")
        problems += [
            f"{tenant.guest.name}: kernel: {line}" for line in tenant.guest.kernel_faults()
        ]
    report = {"policy": vgpu.policy(), "guests": guests}
    for tenant in tenants:
        pinned = vgpu.counters(tenant.uuid)["pages_pinned"]
        if pinned:
            problems.append(
                f"{tenant.guest.name}: {pinned} pages are still pinned after it is gone"
            )
        vgpu.remove(tenant.uuid)
    problems += [
        f"{guest['uuid']}: {program['name']} was not verified"
        for guest in guests
        for program in guest["programs"]
        if program["verified"] is not True
    ]
    return report, problems


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--guests", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    report, problems = run(arguments.guests)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
