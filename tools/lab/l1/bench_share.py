# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The lab's part of `./lab bench share`: two guests on two vGPUs, ordered 2:1, under every policy.

The experiment of the rig (tests/rig/share_figures.cc) with real guests. They are slower to launch
than a process on a real machine, under emulation by far, so a block lasts longer here and several
kernels are in flight. What ran is read on the host, from the GPU's own clock (FUNCTION_TIME).
"""

import json
import pathlib
import socket
import sys
import time

sys.path.insert(0, "/opt/turnstile/lab")

import l2
import vgpu

BLOCKS = (16, 132, 1056)
POLICIES = {"best_effort": 2, "equal_share": 1, "fixed_share": 2, "weighted": 2, "latency": 2}

# At 1 MHz (tools/lab/bench.py) and two cycles a round: 10.1 ms a block, start included. With half of
# it two guests cannot launch as fast as the GPU computes, and who has no work cannot have a share.
_BLOCK_ROUNDS = 5000
# The light tenant, as in the rig: 1 ms every 20 ms.
_LIGHT = "--blocks 11 --rounds 450 --think-us 20000"
_LATENCY_US = 500
# A guest under emulation takes up to some milliseconds from one kernel to the next.
_HOLD_US = 10000
# Kernels in flight.
_DEPTH = 8
_SETTLE_SECONDS = 2.0
_LIGHT_SECONDS = 6
_BOOT_SECONDS = 600
# For what ought to take no time; the machine may have other work.
_PATIENCE_SECONDS = 240

_COMMANDS = """
stty -F /dev/ttyS2 raw -echo
exec 3</dev/ttyS2
echo ready
while read -r line <&3; do
  [ "$line" = quit ] && exit 0
  echo "begin $line"
  eval "$line"
  echo "end $?"
done
"""


class Tenant(vgpu.Tenant):
    """A guest on a vGPU that runs one command after the other."""

    def __init__(self, name, type_id, weight):
        super().__init__(type_id)
        self.name = name
        self._directory = pathlib.Path("/sys/bus/mdev/devices") / self.uuid / "turnstile"
        (self._directory / "weight").write_text(str(weight))
        self._path = f"/run/{name}.sock"
        serial = ["-serial", f"unix:{self._path},server=on,wait=off"]
        self.guest = l2.Guest(name, _COMMANDS, l2.mdev(self.uuid), memory_mib=256, qemu=serial)
        self._seen = 0
        self._socket = socket.socket(socket.AF_UNIX)

    def connect(self):
        """Waits until the guest takes commands."""
        self._wait(b"ready\n", _BOOT_SECONDS)
        self._socket.connect(self._path)

    def start(self, arguments):
        """Begins `ts104-run ARGUMENTS`."""
        self._socket.sendall(f"ts104-run --json {arguments}\n".encode())
        self._wait(b"begin ts104-run", _PATIENCE_SECONDS)

    def finish(self, seconds=0):
        """The result, at most `seconds` away; raises RuntimeError when it failed."""
        text = self._wait(b"\nend ", seconds + _PATIENCE_SECONDS).decode(errors="replace")
        if self._wait(b"\n", _PATIENCE_SECONDS) != b"0":
            raise RuntimeError(f"{self.name}: {text[-2000:]}")
        return json.loads(text[text.index("{") : text.rindex("}") + 1])["bench"][0]

    def set_latency(self, microseconds):
        """The bound of the latency policy; 0: none."""
        (self._directory / "latency_us").write_text(str(microseconds))

    def close(self):
        """Ends the guest and removes the vGPU. Raises when the guest's kernel complained."""
        self._socket.sendall(b"quit\n")
        self.guest.wait(_PATIENCE_SECONDS + time.monotonic() - self.guest.begin)
        faults = self.guest.kernel_faults()
        vgpu.remove(self.uuid)
        if faults:
            raise RuntimeError(f"{self.name}: kernel: {faults[0]}")

    def _wait(self, text, timeout):
        """Waits for `text` in what is new of the guest's output; returns what came before it."""
        deadline = time.monotonic() + timeout
        while True:
            output = self.guest.output()
            index = output.find(text, self._seen)
            if index >= 0:
                before = output[self._seen : index]
                self._seen = index + len(text)
                return before
            if time.monotonic() > deadline or self.guest.process.poll() is not None:
                raise RuntimeError(
                    f"{self.name} did not say {text!r} in {timeout:.0f} s; it said: "
                    + output[-2000:].decode(errors="replace")
                )
            time.sleep(0.05)


def _gpu_directory():
    return pathlib.Path("/sys/bus/pci/devices") / vgpu.gpu_address() / "turnstile"


def _set_policy(name):
    (_gpu_directory() / "policy").write_text(name)


def _window(tenants, seconds):
    """What each ran in the next `seconds`, as shares of that time."""
    begin = time.monotonic()
    before = [tenant.account()["run_ns"] for tenant in tenants]
    time.sleep(seconds)
    after = [tenant.account()["run_ns"] for tenant in tenants]
    elapsed = (time.monotonic() - begin) * 1e9
    return [(b - a) / elapsed for a, b in zip(before, after)]


def _launches(blocks, seconds):
    return (
        f"--seconds {seconds:.1f} --blocks {blocks} --rounds {_BLOCK_ROUNDS} --depth {_DEPTH} "
        "bench launch"
    )


def _shares(tenants, blocks, seconds):
    """[point] of all policies with both guests at it."""
    first, _ = tenants
    _set_policy("best_effort")
    first.start(_launches(blocks, seconds + 2 * _SETTLE_SECONDS))
    time.sleep(_SETTLE_SECONDS)
    solo = _window([first], seconds)[0]
    first.finish()
    duration = len(POLICIES) * (seconds + _SETTLE_SECONDS + 0.5) + 2
    for tenant in tenants:
        tenant.start(_launches(blocks, duration))
    points = []
    for policy, ordered in POLICIES.items():
        _set_policy(policy)
        time.sleep(_SETTLE_SECONDS)
        run = _window(tenants, seconds)
        ratio = run[0] / run[1]
        points.append(
            {
                "policy": policy,
                "ordered": float(ordered),
                "blocks": blocks,
                "ratio": round(ratio, 4),
                "error_percent": round(abs(ratio / ordered - 1) * 100, 3),
                "throughput_of_solo": round(sum(run) / solo, 4),
            }
        )
    for tenant in tenants:
        tenant.finish(duration)
    return points


def _latencies(tenants, blocks, policy):
    """(p50, p99) in microseconds of the second guest's light kernels beside the first one's."""
    busy, light = tenants
    _set_policy(policy)
    light.set_latency(_LATENCY_US)
    busy.start(_launches(blocks, _LIGHT_SECONDS + 2))
    time.sleep(_SETTLE_SECONDS)
    light.start(f"--seconds {_LIGHT_SECONDS} {_LIGHT} bench launch")
    result = light.finish()
    busy.finish()
    light.set_latency(0)
    return round(result["p50_us"]), round(result["p99_us"])


def measure(seconds, progress):
    """The points of the figure; windows of `seconds`. `progress` is told each step's name."""
    points = []
    progress("guests")
    tenants = [
        Tenant("first", "turnstile-ts104_v2", 200),
        Tenant("second", "turnstile-ts104_v4", 100),
    ]
    for tenant in tenants:
        tenant.connect()
    (_gpu_directory() / "hold_us").write_text(str(_HOLD_US))
    for blocks in BLOCKS:
        progress(f"shares at {blocks} blocks")
        for point in _shares(tenants, blocks, seconds):
            progress(f"light tenant at {blocks} blocks, {point['policy']}")
            point["p50_us"], point["p99_us"] = _latencies(tenants, blocks, point["policy"])
            point["measured_by"] = "FUNCTION_TIME read on the host; latency by the guest's clock"
            points.append(point)
    for tenant in tenants:
        tenant.close()
    return points
