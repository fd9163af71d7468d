# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""L2 guests on vGPUs, the bare GPU, the GPU passed through: runs inside L1."""

import json
import pathlib
import re
import sys

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import demo
import l2
import vgpu
from tap import expect, expect_equal, main, patience, run, test, wait_for

GROUPS = [
    {"name": "vgpu"},
    {"name": "bare", "bare": True},
]

GUEST_SECONDS = 200
GUEST_MODULE = "/opt/turnstile/modules/ts104.ko"


def run_guest(command, devices, name="guest", status=0):
    """One guest from start to power-off; returns its output."""
    guest = l2.Guest(name, command, devices)
    return finish(guest, status)


def finish(guest, status=0):
    """Waits for a guest's end; its kernel must not have complained."""
    got, output = guest.wait(GUEST_SECONDS * patience())
    text = output.decode(errors="replace")
    right = got != 0 if status is None else got == status
    expect(right, f"{guest.name}: exit status {got}\n{text[-2000:]}")
    expect_equal(guest.kernel_faults(), [])
    return text


def expect_verified(text):
    """All programs in ts104-run's JSON were verified."""
    programs = json.loads(text[text.index("{") : text.rindex("}") + 1])["programs"]
    expect(programs, "no program ran")
    for program in programs:
        expect(program["verified"] is True, f"not verified: {program}")


class Vgpu:
    """A vGPU for one test."""

    def __init__(self, type_id="turnstile-ts104_v2"):
        self.uuid = vgpu.create(type_id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        vgpu.remove(self.uuid)

    @property
    def devices(self):
        """QEMU arguments for the guest."""
        return l2.mdev(self.uuid)

    def counters(self):
        """The driver's figures."""
        return vgpu.counters(self.uuid)


# vGPUs.


@test("vgpu")
def two_guests_compute_at_once_and_everything_is_verified():
    report, problems = demo.run(2, demo.TIMEOUT_S * patience())
    expect_equal(problems, [])
    expect_equal(len(report["guests"]), 2)
    for guest in report["guests"]:
        expect(len(guest["programs"]) >= 6, f"only {guest['programs']}")
        expect_equal(guest["exits_per_submission"], 0)


@test("vgpu")
def guest_memory_that_is_scattered_on_the_host_works():
    with Vgpu() as one:
        expect_verified(run_guest("ts104-run --placement sysmem --json vecadd sgemm", one.devices))
        expect(one.counters()["pages_pinned_total"] > 0, "nothing was pinned")
        expect_equal(one.counters()["pages_pinned"], 0)


@test("vgpu")
def pins_drop_to_zero_when_the_guest_unloads_its_driver():
    with Vgpu() as one:
        guest = l2.Guest(
            "unload",
            "ts104-run --placement sysmem --json vecadd && rmmod ts104 && echo unloaded && sleep 60",
            one.devices,
        )
        try:
            wait_for(
                lambda: b"unloaded" in guest.output(), GUEST_SECONDS, "the driver did not unload"
            )
            wait_for(lambda: one.counters()["pages_pinned"] == 0, 10, "pins did not go")
        finally:
            guest.kill()


@test("vgpu")
def pins_drop_to_zero_when_qemu_is_killed():
    with Vgpu() as one:
        guest = l2.Guest("killed", "ts104-run --placement sysmem endless", one.devices)
        try:
            wait_for(
                lambda: one.counters()["pages_pinned"] > 0, GUEST_SECONDS, "nothing was pinned"
            )
        finally:
            guest.kill()
        wait_for(lambda: one.counters()["pages_pinned"] == 0, 20, "pins did not go")


@test("vgpu")
def fault_in_one_guest_is_reported_there_and_leaves_the_other_alone():
    with Vgpu() as bad, Vgpu() as good:
        wild = l2.Guest("wild", "ts104-run fault-store", bad.devices)
        fine = l2.Guest("fine", "ts104-run --json --iterations 50 vecadd sgemm", good.devices)
        text = finish(wild, status=None)
        expect(re.search(r"fault.*0x[0-9a-f]+", text, re.I | re.S), f"no fault named: {text}")
        expect_verified(finish(fine))


def expect_interface_holds(text):
    """No check of ts104-uapi-test failed, and there were many."""
    match = re.search(r"^uapi_test: (\d+) passed, 0 failed$", text, re.M)
    expect(match and int(match[1]) > 100, text[-3000:])


@test("vgpu")
def interface_of_the_guest_driver_holds_on_a_vgpu():
    with Vgpu() as one:
        expect_interface_holds(run_guest("STRESS_SECONDS=4 ts104-uapi-test", one.devices))


# The same driver on the GPU itself.


@test("bare")
def guest_driver_runs_on_the_bare_gpu():
    # Nothing to load where the kernel has them built in.
    run(f"modinfo -F depends {GUEST_MODULE} | tr , '\\n' | xargs -r modprobe -a")
    run(f"insmod {GUEST_MODULE}")
    try:
        expect_verified(run("ts104-run --json all", timeout=240))
        expect_interface_holds(run("STRESS_SECONDS=4 ts104-uapi-test", timeout=240))
    finally:
        run("rmmod ts104")


@test("bare")
def guest_driver_runs_on_the_passed_through_gpu():
    address = next(
        path.parent.name
        for path in pathlib.Path("/sys/bus/pci/devices").glob("*/device")
        if path.read_text() == "0x7510\n" and (path.parent / "vendor").read_text() == "0x1234\n"
    )
    pathlib.Path(f"/sys/bus/pci/devices/{address}/driver_override").write_text("vfio-pci")
    pathlib.Path("/sys/bus/pci/drivers_probe").write_text(address)
    device = ["-device", f"vfio-pci,host={address}"]
    expect_verified(run_guest("ts104-run --json all", device))


if __name__ == "__main__":
    main()
