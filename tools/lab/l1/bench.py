#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Benchmarks inside L1, which is booted without the host driver.

  native  the same programs on the bare GPU, on the GPU passed through to a guest, and on a vGPU
  pin     guest pages pinned and translated per second, in batches and one page per call
  share   two guests ordered 2:1 under every policy
  tracing a driver without tracepoints, and ours with them off and on
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, "/opt/turnstile/lab")

import bench_share
import bench_tracing
import l2
import vgpu

_MODULES = pathlib.Path("/opt/turnstile/modules")
_GUEST_SECONDS = 240
_PIN_PAGES = 65536
_PIN_GPA = 0x1000000


def _shell(command, timeout=_GUEST_SECONDS):
    result = subprocess.run(
        command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout
    )
    if result.returncode != 0:
        raise RuntimeError(f"{command}: status {result.returncode}: {result.stderr.decode()}")
    return result.stdout.decode()


def _load(name):
    module = _MODULES / f"{name}.ko"
    _shell(f"for m in $(modinfo -F depends {module} | tr , ' '); do modprobe $m || exit; done")
    _shell(f"insmod {module}")


def _in_guest(command, devices):
    status, output = l2.Guest("bench", command, devices).wait(_GUEST_SECONDS)
    text = output.decode(errors="replace")
    if status != 0:
        raise RuntimeError(f"guest: status {status}\n{text[-2000:]}")
    return text


def _benches(text):
    """{name: operations per second} out of ts104-run's JSON."""
    report = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return {bench["name"]: bench["operations_per_s"] for bench in report["bench"]}


def gpu_address():
    """The PCI address of the TS104, whoever drives it."""
    for path in pathlib.Path("/sys/bus/pci/devices").iterdir():
        ids = ((path / name).read_text().strip() for name in ("vendor", "device"))
        if tuple(ids) == ("0x1234", "0x7510"):
            return path.name
    raise RuntimeError("no TS104 on the PCI bus")


def set_driver(address, name):
    """Binds the GPU to the PCI driver `name`, or to none when it is ""."""
    device = pathlib.Path("/sys/bus/pci/devices") / address
    if (device / "driver").exists():
        (device / "driver/unbind").write_text(address)
    (device / "driver_override").write_text((name or "none") + "\n")
    if name:
        pathlib.Path("/sys/bus/pci/drivers_probe").write_text(address)
        if (device / "driver").resolve().name != name:
            raise RuntimeError(f"{name} did not take {address}")


def native(seconds):
    """Operations per second on all three, and each as a share of the bare GPU's."""
    command = f"ts104-run --json --seconds {seconds} bench gpu mixed submit"
    address = gpu_address()
    set_driver(address, "")
    _load("ts104")
    set_driver(address, "ts104")
    results = {"bare": _benches(_shell(command))}
    set_driver(address, "vfio-pci")
    results["passthrough"] = _benches(_in_guest(command, ["-device", f"vfio-pci,host={address}"]))
    set_driver(address, "")
    _load("turnstile")
    set_driver(address, "turnstile")
    uuid = vgpu.create("turnstile-ts104_v1")
    results["vgpu"] = _benches(_in_guest(command, l2.mdev(uuid)))
    results["vgpu_counters"] = vgpu.counters(uuid)
    vgpu.remove(uuid)
    _shell("rmmod turnstile")
    for kind in ("passthrough", "vgpu"):
        results[f"{kind}_share"] = {
            name: round(results[kind][name] / bare, 4) for name, bare in results["bare"].items()
        }
    return results


def pin(_):
    """Pages per second by batch size, measured by the driver on the memory of a waiting guest."""
    address = gpu_address()
    set_driver(address, "")
    _load("turnstile")
    set_driver(address, "turnstile")
    uuid = vgpu.create("turnstile-ts104_v2")
    guest = l2.Guest("pin", "echo ready; sleep 600", l2.mdev(uuid), memory_mib=512)
    results = {}
    try:
        deadline = time.monotonic() + 90
        while b"ready" not in guest.output():
            if time.monotonic() > deadline or guest.process.poll() is not None:
                raise RuntimeError("the guest did not start")
            time.sleep(0.1)
        path = pathlib.Path(f"/sys/kernel/debug/turnstile/{address}/{uuid}/pin_bench")
        for batch in (1, 16, 64, 512):
            path.write_text(f"{_PIN_GPA:#x} {_PIN_PAGES} {batch}\n")
            run = dict(line.split("=") for line in path.read_text().splitlines())
            if int(run["error"]):
                raise RuntimeError(f"pin_bench: error {run['error']}")
            results[str(batch)] = {
                "pin_pages_per_s": round(int(run["pages"]) * 1e9 / int(run["pin_ns"])),
                "unpin_pages_per_s": round(int(run["pages"]) * 1e9 / int(run["unpin_ns"])),
            }
        results["idle_memory_bytes"] = vgpu.counters(uuid)["memory_bytes"]
    finally:
        guest.kill()
    vgpu.remove(uuid)
    _shell("rmmod turnstile")
    results["speedup_512_to_1"] = round(
        results["512"]["pin_pages_per_s"] / results["1"]["pin_pages_per_s"], 2
    )
    return results


def share(seconds):
    """The points of the figure of shares that two guests make."""
    address = gpu_address()
    set_driver(address, "")
    _load("turnstile")
    set_driver(address, "turnstile")
    points = bench_share.measure(seconds, lambda name: print(f"bench: share: {name}", flush=True))
    _shell("rmmod turnstile")
    return points


@contextlib.contextmanager
def _vgpu_of(module):
    """Loads `module`, a turnstile.ko, and gives the UUID of a vGPU of it."""
    address = gpu_address()
    set_driver(address, "")
    _load(module)
    set_driver(address, "turnstile")
    # The smallest, whose VRAM is soon cleared: that is done behind a reset, on the same CPU.
    uuid = vgpu.create("turnstile-ts104_v16")
    yield uuid
    vgpu.remove(uuid)
    _shell("rmmod turnstile")


def tracing(seconds):
    """What tracepoints cost per operation, off and on."""
    return bench_tracing.measure(
        seconds, _vgpu_of, _shell, lambda text: print(f"bench: tracing: {text}", flush=True)
    )


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="+", choices=["native", "pin", "share", "tracing"])
    arguments = parser.parse_args()
    results = {}
    for name in arguments.names:
        print(f"bench: {name}", flush=True)
        bench = {"native": native, "pin": pin, "share": share, "tracing": tracing}[name]
        results[name] = bench(arguments.seconds)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
