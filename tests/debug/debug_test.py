# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""On the debug kernel: a vGPU's life thousands of times, and with everything failing that may fail.

Runs inside L1 (`./lab test debug`). What KASAN, UBSAN, lockdep, RCU and the debug objects find is
in the kernel log, which the lab judges; what leaks, kmemleak tells at the end of each group.
"""

import contextlib
import os
import pathlib
import struct
import subprocess
import sys
import time

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import faults
import vfio
import vgpu
from tap import Failure, count, expect, expect_equal, figure, main, test, wait_for
from vfio import errno_of

GROUPS = [
    {"name": "soak"},
    {"name": "inject"},
]

UUID = "0a9f4d5c-7b1e-4b52-9d15-6b5d2f1c0a03"
TYPE = "turnstile-ts104_v16"
_DEVICE_CONTROL, _FLR = 0x80, 0x8000  # of the PCI Express capability
_DOORBELL_PAGE = 0x810000
# More chances than any call has.
_MOST = 400


@contextlib.contextmanager
def one_vgpu():
    """A vGPU with the name UUID, gone afterwards; nobody has it open by then."""
    vgpu.create(TYPE, UUID)
    try:
        yield
    finally:
        vgpu.remove(UUID)


def expect_nothing_held():
    """The vGPU, which nobody has open, holds what it held when it was made."""
    counters = vgpu.counters(UUID)
    held = {name: counters[name] for name in ("pages_pinned", "channels")}
    expect_equal(held, {"pages_pinned": 0, "channels": 0})


# Thousands of times.


@test("soak")
def vgpu_is_opened_and_closed():
    rounds = count(1000, 10000)
    with one_vgpu(), contextlib.closing(vfio.memory(64 << 12)) as area:
        before = vgpu.counters(UUID)["memory_bytes"]
        begin = time.monotonic()
        for index in range(rounds):
            with vfio.Device(UUID) as device:
                # Some use it, in their own way.
                if index % 4 == 0:
                    device.map(0, _DOORBELL_PAGE, 4096).close()
                if index % 8 == 1:
                    device.dma_map(area, 0)
                    vfio.pin_bench(vgpu.gpu_address(), UUID, 0, 64, 64)
                if index % 8 == 2:
                    with contextlib.closing(vfio.Eventfd()) as event:
                        device.set_irqs(vfio.MSI, vfio.DATA_EVENTFD | vfio.TRIGGER, 0, [event.fd])
                if index % 8 == 3:
                    device.write(1, 0x1000, b"left" * 100)
        seconds = time.monotonic() - begin
        expect_nothing_held()
        expect_equal(vgpu.counters(UUID)["memory_bytes"], before)
    figure(f"{rounds} in {seconds:.0f} s")


@test("soak")
def vgpu_is_reset_by_flr_and_by_vfio():
    rounds = count(200, 1000)
    with one_vgpu(), vfio.Device(UUID) as device:
        before = vgpu.counters(UUID)["memory_bytes"]
        control = struct.unpack("<H", device.read(vfio.CONFIG, _DEVICE_CONTROL, 2))[0]
        begin = time.monotonic()
        with contextlib.closing(device.map(1, 0, 1 << 20)) as vram:
            for index in range(rounds):
                vram[index * 4096 % len(vram)] = 0x5A
                if index % 2:
                    device.reset()
                else:
                    flr = struct.pack("<H", control | _FLR)
                    device.write(vfio.CONFIG, _DEVICE_CONTROL, flr)
                expect_equal(vram[index * 4096 % len(vram)], 0)
        seconds = time.monotonic() - begin
        expect_equal(vgpu.counters(UUID)["resets"], rounds)
        expect_equal(vgpu.counters(UUID)["memory_bytes"], before)
    figure(f"{rounds} in {seconds:.0f} s")


@test("soak")
def vgpu_is_made_and_removed():
    rounds = count(200, 1000)
    begin = time.monotonic()
    for _ in range(rounds):
        vgpu.create(TYPE, UUID)
        vgpu.remove(UUID)
    figure(f"{rounds} in {time.monotonic() - begin:.0f} s")
    expect_equal(vgpu.available(TYPE), 16)


# Everything that may fail fails once.


def each_failure(what, call, undo=lambda: None, errors=("ENOMEM", "EFAULT")):
    """`call` with its first, second, … chance to fail taken, until it has none left.

    It works or ends with one of `errors`; then it is called again, with nothing failing, and works.
    `undo` after each call that worked.
    """
    failed = 0
    for nth in range(1, _MOST):
        with faults.Nth(nth) as injected:
            error = errno_of(call)
        if not error:
            undo()
        if not injected.hit:
            expect_equal((what, nth, error), (what, nth, ""))
            break
        expect(error in ("", *errors), f"{what}, chance {nth}: {error}")
        failed += bool(error)
        again = errno_of(call)
        expect_equal((what, nth, again), (what, nth, ""))
        undo()
    else:
        raise Failure(f"{what}: no end after {_MOST} chances")
    if nth > 1:
        figure(f"{what} {failed} of {nth - 1}")
    return nth - 1


@test("inject")
def making_a_vgpu():
    faults.prepare()
    chances = each_failure(
        "create", lambda: vgpu.create(TYPE, UUID), lambda: vgpu.remove(UUID)
    )  # fmt: skip
    expect(chances > 3, f"only {chances} allocations in the making of a vGPU: is the filter right?")
    expect_equal(vgpu.available(TYPE), 16)


@test("inject")
def removing_a_vgpu():
    faults.prepare()

    def remove():
        if not pathlib.Path(f"/sys/bus/mdev/devices/{UUID}").exists():
            vgpu.create(TYPE, UUID)
        vgpu.remove(UUID)

    for nth in range(1, _MOST):
        vgpu.create(TYPE, UUID)
        with faults.Nth(nth) as injected:
            error = errno_of(vgpu.remove, UUID)
        expect_equal(error, "")
        if not injected.hit:
            break
    figure(f"remove {nth - 1}")
    remove()
    expect_equal(vgpu.available(TYPE), 16)


@test("inject")
def attributes():
    faults.prepare()
    with one_vgpu():
        for name in ("weighted", "fixed_share", "latency", "equal_share", "best_effort"):
            each_failure(name, lambda name=name: vgpu.set_gpu("policy", name))
        for name, value in (("timeslice_us", 5000), ("timeslice_us", 0), ("hold_us", 200)):
            each_failure(name, lambda name=name, value=value: vgpu.set_gpu(name, value))
        vgpu.set_gpu("hold_us", 0)
        for name, value in (("weight", 200), ("cap_percent", 50), ("latency_us", 500)):
            each_failure(name, lambda name=name, value=value: vgpu.set_vgpu(UUID, name, value))
        for path in sorted(vgpu.vgpu_dir(UUID).iterdir()):
            each_failure(path.name, path.read_bytes)


@test("inject")
def opening_a_vgpu():
    faults.prepare()
    opened = []

    def close():
        opened.pop().close()
        expect_nothing_held()

    with one_vgpu():
        before = vgpu.counters(UUID)["memory_bytes"]
        chances = each_failure("open", lambda: opened.append(vfio.Device(UUID)), close)
        expect(chances > 3, f"only {chances} allocations in an open: is the filter right?")
        expect_equal(vgpu.counters(UUID)["memory_bytes"], before)


@test("inject")
def ioctls():
    faults.prepare()
    trigger = vfio.DATA_EVENTFD | vfio.TRIGGER
    with one_vgpu(), vfio.Device(UUID) as device, contextlib.ExitStack() as stack:
        events = [vfio.Eventfd() for _ in range(6)]
        for event in events:
            stack.callback(event.close)
        each_failure("device info", device.info)
        for index in range(9):
            each_failure(f"region {index}", lambda index=index: device.region(index))
        each_failure("irq info", lambda: device.irq(vfio.MSIX))
        for index, number in ((vfio.MSIX, 6), (vfio.MSI, 1), (vfio.INTX, 1)):
            each_failure(
                f"irqs {index}",
                lambda index=index, number=number: device.set_irqs(
                    index, trigger, 0, [event.fd for event in events[:number]]
                ),
                lambda index=index: device.set_irqs(
                    index, vfio.DATA_NONE | vfio.TRIGGER, 0, count=0
                ),
            )
        device.set_irqs(vfio.INTX, trigger, 0, [events[0].fd])
        unmask = vfio.DATA_EVENTFD | vfio.UNMASK
        each_failure(
            "unmask",
            lambda: device.set_irqs(vfio.INTX, unmask, 0, [events[1].fd]),
            lambda: device.set_irqs(vfio.INTX, unmask, 0, [-1]),
        )
        device.set_irqs(vfio.INTX, vfio.DATA_NONE | vfio.TRIGGER, 0, count=0)
        each_failure(
            "request", lambda: device.set_irqs(vfio.REQ, trigger, 0, [events[2].fd])
        )  # fmt: skip
        each_failure("reset", device.reset)


@test("inject")
def accesses_and_mappings():
    faults.prepare()
    with one_vgpu(), vfio.Device(UUID) as device:
        bar0, bar1 = device.region(0), device.region(1)
        config = device.region(vfio.CONFIG)
        # pread and pwrite alone, without the ioctl that device.read() begins with.

        def read(offset, length):
            return lambda: os.pread(device.fd, length, offset)

        def write(offset, data):
            return lambda: os.pwrite(device.fd, data, offset)

        each_failure("config read", read(config.offset, 256))
        each_failure("config write", write(config.offset + 4, b"\x06\x00"))
        each_failure("register read", read(bar0.offset + 0x140, 4))
        each_failure("register write", write(bar0.offset + 0x160, struct.pack("<I", 1 << 31)))
        each_failure("VRAM read", read(bar1.offset + 0x1001, 9000))
        each_failure("VRAM write", write(bar1.offset + 0x1001, bytes(9000)))
        for name, region, offset in (("doorbell", 0, _DOORBELL_PAGE), ("VRAM", 1, 0)):

            def touch(region=region, offset=offset):
                with contextlib.closing(device.map(region, offset, 4096)) as area:
                    if region == 1:
                        area[0] = 1

            each_failure(f"mapping of {name}", touch)


@test("inject")
def pins_and_unmaps():
    faults.prepare()
    length = 16 << 12  # each page is an allocation of its own
    with one_vgpu(), vfio.Device(UUID) as device:
        area = vfio.memory(length)

        def pin():
            # After ten failures within five seconds the driver asks VFIO once a second
            # (guest_memory.c). Every other call fails here, so this is slow enough.
            time.sleep(0.3)
            result = vfio.pin_bench(vgpu.gpu_address(), UUID, 0, length >> 12, 8)
            if result["error"]:
                raise OSError(abs(result["error"]), "pin")

        def unmap():
            device.dma_unmap(0, length)

        device.dma_map(area, 0)
        each_failure("pins", pin)
        expect_nothing_held()
        # Also when something fails, an unmap leaves nothing behind.
        each_failure("unmap", unmap, lambda: device.dma_map(area, 0), errors=())
        expect_nothing_held()


@test("inject")
def unmap_under_a_program_that_runs():
    """The GPU must lose the memory whatever fails: an unmap has no way to say that it did not."""
    faults.prepare()
    with one_vgpu():
        for nth in range(1, _MOST):
            with running(["--placement", "sysmem", "endless"]) as process:
                wait_for(lambda: vgpu.counters(UUID)["pages_pinned"] > 0, 60, "nothing is pinned")
                with faults.Nth(nth) as injected:
                    error = errno_of(vfio.unmap_everything_of, process.pid)
                expect_equal((nth, error), (nth, ""))
                expect_equal((nth, vgpu.counters(UUID)["pages_pinned"]), (nth, 0))
            expect_nothing_held()
            if not injected.hit:
                break
        else:
            raise Failure(f"no end after {_MOST} chances")
    figure(f"{nth - 1} chances")


@contextlib.contextmanager
def running(arguments):
    """ts104-run on the vGPU, killed afterwards."""
    device = f"/sys/bus/mdev/devices/{UUID}"
    process = subprocess.Popen(
        ["ts104-run", "--transport", "vfio", "--device", device, *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@test("inject")
def a_program_from_open_to_close():
    """Page tables are shadowed, guest memory pinned, channels made, faults and interrupts handled.

    One run tells how many chances there are; then so many runs, each with another one taken, evenly
    spread from the first to the last.
    """
    faults.prepare()
    outcomes = {}
    with one_vgpu():
        status, text, chances = vecadd(faults.NEVER)
        expect_equal((status, text if status else ""), (0, ""))
        expect(chances > 100, f"only {chances} chances: is the filter right?")
        runs = min(count(40, 400), chances)
        begin = time.monotonic()
        for index in range(runs):
            nth = 1 + index * (chances - 1) // (runs - 1)
            status, text, met = vecadd(nth)
            expect(status in (0, 2, 3), f"chance {nth}: {status}\n{text}")
            # How often a program asks the GPU whether it is ready is not the same in every run.
            expect(met == nth or not status, f"chance {nth}: {met} met, but {status}\n{text}")
            outcomes[status] = outcomes.get(status, 0) + (met == nth)
            expect_nothing_held()
        seconds = (time.monotonic() - begin) / runs
        expect_equal(vecadd(faults.NEVER)[0], 0)
    figure(f"{sum(outcomes.values())} of {chances} chances, {seconds:.1f} s each")
    figure(f"exit status: count {outcomes}")


def vecadd(nth):
    """A GPU program on the vGPU, its `nth` chance taken: its exit status, what it said, chances met."""
    device = f"/sys/bus/mdev/devices/{UUID}"
    command = ["ts104-run", "--transport", "vfio", "--device", device, "--placement", "sysmem"]
    command += ["--elements", "1024", "--timeout-ms", "10000", "vecadd"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=lambda: faults.arm_self(nth),
    )  # fmt: skip
    met = nth - faults.left(process.pid)
    return process.wait(), process.stdout.read().decode(errors="replace"), met


if __name__ == "__main__":
    main()
