# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""turnstile.ko on a real kernel, without guests: runs inside L1 (`./lab test boot`)."""

import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import inspection  # noqa: F401  its tests
import sched_controls  # noqa: F401  its tests
import vfio
import vfio_interface  # noqa: F401  its tests
import vgpu
from tap import expect, expect_equal, figure, main, patience, run, test, wait_for

GROUPS = [
    {"name": "driver"},
    {"name": "sched", "device": {"engine_mhz": 10, "sms": 1}},
    {"name": "large", "device": {"vram": "4G"}},
    {"name": "alone", "no_device": True},
]

_TS104_VRAM_SIZE = 0xF004
_DEVICE_CONTROL, _FLR = 0x80, 0x8000  # of the PCI Express capability

MODULE = "/opt/turnstile/modules/turnstile.ko"
UUID_A = "0a9f4d5c-7b1e-4b52-9d15-6b5d2f1c0a01"
UUID_B = "0a9f4d5c-7b1e-4b52-9d15-6b5d2f1c0a02"


class Vgpus:
    """Makes vGPUs and removes them again, whatever the test does."""

    def __init__(self):
        self.uuids = []

    def __enter__(self):
        return self

    def create(self, type_id, uuid=None):
        """Makes one; returns its UUID."""
        uuid = vgpu.create(type_id, uuid)
        self.uuids.append(uuid)
        return uuid

    def remove(self, uuid):
        """Removes one now."""
        self.uuids.remove(uuid)
        vgpu.remove(uuid)

    def __exit__(self, *_):
        for uuid in self.uuids:
            vgpu.remove(uuid)


def kernel_log():
    """The kernel's log so far."""
    return subprocess.run(["dmesg"], stdout=subprocess.PIPE, check=True).stdout.decode()


# The driver and its GPU.


@test("driver")
def offers_the_five_types_under_their_fixed_ids():
    expect_equal(vgpu.types(), sorted(f"turnstile-ts104_v{n}" for n in (1, 2, 4, 8, 16)))


@test("driver")
def every_type_says_its_name_api_and_description():
    for type_id in vgpu.types():
        directory = vgpu.type_dir(type_id)
        expect((directory / "name").read_text().strip(), f"{type_id} has no name")
        expect_equal((directory / "device_api").read_text(), "vfio-pci\n")
        expect(
            "max_instance=" in (directory / "description").read_text(), f"{type_id}: description"
        )


@test("driver")
def types_offer_one_nth_of_the_gpu():
    offered = {type_id: vgpu.available(type_id) for type_id in vgpu.types()}
    expect_equal(offered, {f"turnstile-ts104_v{n}": n for n in (1, 2, 4, 8, 16)})


@test("driver")
def availability_of_all_types_follows_every_create_and_remove():
    with Vgpus() as vgpus:
        half = vgpus.create("turnstile-ts104_v2")
        expect_equal(vgpu.available("turnstile-ts104_v1"), 0)
        expect_equal(vgpu.available("turnstile-ts104_v2"), 1)
        expect_equal(vgpu.available("turnstile-ts104_v16"), 8)
        vgpus.create("turnstile-ts104_v4")
        expect_equal(vgpu.available("turnstile-ts104_v2"), 0)
        expect_equal(vgpu.available("turnstile-ts104_v4"), 1)
        expect_equal(vgpu.available("turnstile-ts104_v16"), 4)
        vgpus.remove(half)
        expect_equal(vgpu.available("turnstile-ts104_v2"), 1)
        expect_equal(vgpu.available("turnstile-ts104_v16"), 12)
    expect_equal(vgpu.available("turnstile-ts104_v1"), 1)


@test("driver")
def second_vgpu_of_one_uuid_is_refused_with_eexist():
    with Vgpus() as vgpus:
        vgpus.create("turnstile-ts104_v4", UUID_A)
        problem = vgpu.expect_errno("EEXIST", vgpu.create, "turnstile-ts104_v4", UUID_A)
        expect(not problem, problem)


@test("driver")
def create_without_capacity_is_enospc_and_the_log_gives_numbers():
    with Vgpus() as vgpus:
        vgpus.create("turnstile-ts104_v1", UUID_A)
        problem = vgpu.expect_errno("ENOSPC", vgpu.create, "turnstile-ts104_v16", UUID_B)
        expect(not problem, problem)
    lines = [line for line in kernel_log().splitlines() if "turnstile" in line]
    expect(any(c.isdigit() for c in lines[-1].split("turnstile", 1)[1]), f"no numbers: {lines[-1]}")


@test("driver")
def uuid_is_free_again_right_after_remove():
    for _ in range(10):
        vgpu.create("turnstile-ts104_v2", UUID_A)
        vgpu.remove(UUID_A)
    expect_equal(vgpu.available("turnstile-ts104_v2"), 2)


@test("driver")
def sixteen_vgpus_fill_the_gpu():
    with Vgpus() as vgpus:
        for _ in range(16):
            vgpus.create("turnstile-ts104_v16")
        expect_equal(vgpu.available("turnstile-ts104_v16"), 0)
        functions = {
            pathlib.Path(f"/sys/bus/mdev/devices/{uuid}/turnstile/function").read_text()
            for uuid in vgpus.uuids
        }
        expect_equal(len(functions), 16)


@test("driver")
def policy_is_best_effort_and_an_unknown_one_is_refused():
    expect_equal(vgpu.policy(), "best_effort")
    path = f"/sys/bus/pci/devices/{vgpu.gpu_address()}/turnstile/policy"

    def set_policy():
        with open(path, "wb", buffering=0) as stream:
            stream.write(b"lottery")

    problem = vgpu.expect_errno("EINVAL", set_policy)
    expect(not problem, problem)
    expect_equal(vgpu.policy(), "best_effort")


@test("driver")
def second_driver_for_the_gpu_gets_ebusy():
    address = vgpu.gpu_address()
    override = pathlib.Path(f"/sys/bus/pci/devices/{address}/driver_override")
    override.write_text("vfio-pci")

    def bind():
        with open("/sys/bus/pci/drivers/vfio-pci/bind", "wb", buffering=0) as stream:
            stream.write(address.encode())

    try:
        problem = vgpu.expect_errno("EBUSY", bind)
    finally:
        override.write_text("\n")
    expect(not problem, problem)


# GPU programs through VFIO, without a guest.


def ts104_run(uuid, arguments, timeout=240, status=0):
    """ts104-run on the vGPU `uuid` through VFIO."""
    device = f"/sys/bus/mdev/devices/{uuid}"
    return run(f"ts104-run --transport vfio --device {device} {arguments}", timeout, status)


def programs_verified(text):
    """Fails unless ts104-run's JSON says that all programs were verified; returns it."""
    report = json.loads(text[text.index("{") :])
    programs = report["programs"]
    expect(programs, "no program ran")
    for program in programs:
        expect(program["verified"] is True, f"not verified: {program}")
    return report


@test("driver")
def all_programs_compute_in_vram_through_vfio():
    with Vgpus() as vgpus:
        uuid = vgpus.create("turnstile-ts104_v2")
        programs_verified(ts104_run(uuid, "--placement vram --json all"))


@test("driver")
def programs_compute_in_host_memory_and_leave_no_pin():
    with Vgpus() as vgpus:
        uuid = vgpus.create("turnstile-ts104_v2")
        programs_verified(ts104_run(uuid, "--placement sysmem --json vecadd sgemm"))
        counters = vgpu.counters(uuid)
        expect(counters["pages_pinned_total"] > 0, "nothing was pinned")
        expect_equal(counters["pages_pinned"], 0)


@test("driver")
def killed_process_leaves_no_pin_and_the_vgpu_works_again():
    with Vgpus() as vgpus:
        uuid = vgpus.create("turnstile-ts104_v4")
        device = f"/sys/bus/mdev/devices/{uuid}"
        process = subprocess.Popen(
            ["ts104-run", "--transport", "vfio", "--device", device, "--placement", "sysmem",
             "endless"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_for(lambda: vgpu.counters(uuid)["pages_pinned"] > 0, 60, "nothing was pinned")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        wait_for(lambda: vgpu.counters(uuid)["pages_pinned"] == 0, 10, "pins did not go")
        programs_verified(ts104_run(uuid, "--json vecadd"))


@test("driver")
def wild_store_is_one_line_that_names_the_fault():
    with Vgpus() as vgpus:
        uuid = vgpus.create("turnstile-ts104_v4")
        text = ts104_run(uuid, "fault-store", status=None)
        expect("fault" in text.lower() and "0x" in text, f"does not name the fault: {text}")
        programs_verified(ts104_run(uuid, "--json vecadd"))


@test("driver")
def idle_open_vgpu_needs_at_most_256_kib_in_the_host():
    with Vgpus() as vgpus:
        uuid = vgpus.create("turnstile-ts104_v4")
        programs_verified(ts104_run(uuid, "--json vecadd"))
        expect(vgpu.counters(uuid)["memory_bytes"] <= 256 * 1024, str(vgpu.counters(uuid)))


@test("driver")
def driver_unloads_and_loads_again():
    run("rmmod turnstile")
    expect(not list(pathlib.Path("/sys/class/mdev_bus").iterdir()), "the GPU still offers vGPUs")
    run(f"insmod {MODULE}")
    expect_equal(vgpu.available("turnstile-ts104_v16"), 16)


@test("driver")
def unknown_policy_parameter_is_refused_at_load():
    run("rmmod turnstile")
    try:
        text = run(f"insmod {MODULE} policy=lottery", status=None)
        expect("Invalid" in text, text)
    finally:
        run(f"insmod {MODULE}")


# Much VRAM.


@test("large")
def reset_of_a_large_vgpu_is_quick_and_its_vram_is_cleared_before_it_is_touched():
    """FLR has 100 ms; 2 GiB take longer to clear. The best of some, since this machine may be busy."""
    size, seconds = 2 << 30, []
    with Vgpus() as vgpus, vfio.Device(vgpus.create("turnstile-ts104_v2")) as device:
        expect_equal(device.region(1).size, size)
        with contextlib.closing(device.map(1, 0, size)) as vram:
            for place in (0, size // 2, size - 4096, 0x1234567, size - 1):
                vram[place] = 0x5A
                begin = time.monotonic()
                device.reset()
                seconds.append(time.monotonic() - begin)
                expect_equal(device.read32(_TS104_VRAM_SIZE), size >> 20)
                expect_equal(vram[place], 0)
                vram[place] = 0x5A
                expect_equal(vram[place], 0x5A)
            # By access, and with the reset in the capability.
            control = struct.unpack("<H", device.read(vfio.CONFIG, _DEVICE_CONTROL, 2))[0]
            device.write(vfio.CONFIG, _DEVICE_CONTROL, struct.pack("<H", control | _FLR))
            expect_equal(device.read(1, size - 1, 1), b"\0")
    figure(f"reset of 2 GiB: {', '.join(f'{1000 * s:.1f}' for s in seconds)} ms")
    expect(min(seconds) <= 0.1 * patience(), f"resets took {seconds} s")


# Without a GPU.


@test("alone")
def loads_and_waits_without_a_gpu():
    expect("turnstile" in pathlib.Path("/proc/modules").read_text(), "turnstile.ko is not loaded")
    bus = pathlib.Path("/sys/class/mdev_bus")
    expect(not bus.exists() or not list(bus.iterdir()), "somebody offers vGPUs")


@test("alone")
def unloads_without_a_gpu():
    run("rmmod turnstile")
    run(f"insmod {MODULE}")


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    main()
