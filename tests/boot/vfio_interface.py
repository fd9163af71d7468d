# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A vGPU as a VFIO PCI device: what QEMU relies on, without QEMU. Tests of the group "driver"."""

import contextlib
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import vfio
import vgpu
from tap import expect, expect_equal, patience, test, wait_for
from vfio import errno_of

# common/ts104: registers and the bits used here.
_PMC_INTR_EN_0, _PMC_INTR_EN_SET_0, _PMC_INTR_SW_0 = 0x140, 0x160, 0x1A0
_SOFTWARE = 1 << 31
_DOORBELL_PAGE = 0x810000
# MSI-X entry of PMC INTR(0).
_PMC_VECTOR = 4


@contextlib.contextmanager
def open_vgpu(type_id="turnstile-ts104_v4"):
    """(UUID, open vfio.Device) of a new vGPU, which goes at the end."""
    uuid = vgpu.create(type_id)
    try:
        with vfio.Device(uuid) as device:
            yield uuid, device
    finally:
        vgpu.remove(uuid)


@contextlib.contextmanager
def eventfds(count):
    """`count` eventfds."""
    made = [vfio.Eventfd() for _ in range(count)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


def raise_software_interrupt(device, level=True):
    """Sets PMC's software interrupt."""
    device.write32(_PMC_INTR_EN_SET_0, _SOFTWARE)
    device.write32(_PMC_INTR_SW_0, _SOFTWARE if level else 0)


# What it says of itself.


@test("driver")
def vfio_device_is_a_pci_device_with_reset():
    with open_vgpu() as (_, device):
        expect_equal(device.info(), (3, 9, 5))


@test("driver")
def regions_are_those_of_a_ts104_with_one_quarter_of_the_vram():
    with open_vgpu() as (_, device):
        sizes = [device.region(index).size for index in range(9)]
        attribute = f"/sys/class/mdev_bus/{vgpu.gpu_address()}/turnstile/vram_bytes"
        vram = int(pathlib.Path(attribute).read_text())
        expect_equal(sizes, [16 << 20, vram // 4, 0, 64 << 10, 0, 0, 0, sizes[7], 0])
        expect(sizes[7] in (256, 4096), f"config space of {sizes[7]} bytes")
        expect_equal(errno_of(device.region, 9), "EINVAL")


@test("driver")
def only_the_doorbell_of_bar0_may_be_mapped():
    with open_vgpu() as (_, device):
        areas = device.region(0).areas
        expect(any(offset == _DOORBELL_PAGE for offset, _ in areas), f"areas: {areas}")
        device.map(0, _DOORBELL_PAGE, 4096).close()
        expect_equal(errno_of(device.map, 0, 0, 4096), "EINVAL")
        expect_equal(errno_of(device.map, 0, areas[0][0], areas[0][1] + 4096), "EINVAL")


@test("driver")
def private_and_oversized_and_config_mappings_are_refused():
    with open_vgpu() as (_, device):
        expect_equal(errno_of(device.map, 1, 0, 4096, flags=mmap.MAP_PRIVATE), "EINVAL")
        expect_equal(errno_of(device.map, 1, 0, device.region(1).size + 4096), "EINVAL")
        expect_equal(errno_of(device.map, vfio.CONFIG, 0, 4096), "EINVAL")


@test("driver")
def interrupt_indexes_have_1_1_6_0_1_vectors():
    with open_vgpu() as (_, device):
        counts = [device.irq(index)[1] for index in (vfio.INTX, vfio.MSI, vfio.MSIX, vfio.REQ)]
        expect_equal(counts, [1, 1, 6, 1])
        expect_equal(errno_of(device.irq, vfio.ERR), "EINVAL")
        expect_equal(errno_of(device.set_irqs, vfio.ERR, vfio.DATA_EVENTFD | 32, 0, [-1]), "ENOTTY")


# Access.


@test("driver")
def config_space_reads_alike_in_every_size_and_alignment():
    with open_vgpu() as (_, device):
        whole = device.read(vfio.CONFIG, 0, 256)
        expect_equal(whole[:4], b"\x34\x12\x10\x75")
        for start in range(8):
            for length in range(1, 13):
                expect_equal(device.read(vfio.CONFIG, start, length), whole[start : start + length])


@test("driver")
def accesses_end_at_the_end_of_the_region():
    with open_vgpu() as (_, device):
        size = device.region(vfio.CONFIG).size
        expect_equal(len(device.read(vfio.CONFIG, size - 8, 100)), 8)
        expect_equal(errno_of(device.read, vfio.CONFIG, size, 1), "EINVAL")
        expect_equal(errno_of(device.read, 2, 0, 4), "EINVAL")


@test("driver")
def vram_is_the_same_memory_mapped_and_by_access():
    with open_vgpu() as (_, device):
        pattern = bytes(i * 13 % 251 for i in range(5000))
        with contextlib.closing(device.map(1, 0, device.region(1).size)) as mapped:
            mapped[0x201003 : 0x201003 + 5000] = pattern
            expect_equal(device.read(1, 0x201003, 5000), pattern)
            device.write(1, 0x300001, pattern)
            expect_equal(mapped[0x300001 : 0x300001 + 5000], pattern)


@test("driver")
def next_user_finds_cleared_vram():
    uuid = vgpu.create("turnstile-ts104_v4")
    try:
        for _ in range(2):
            with vfio.Device(uuid) as device:
                expect_equal(device.read(1, 0x100000, 4096), bytes(4096))
                device.write(1, 0x100000, b"secret" * 600)
    finally:
        vgpu.remove(uuid)


@test("driver")
def reset_gives_the_power_on_state():
    with open_vgpu() as (_, device):
        raise_software_interrupt(device)
        device.write(1, 0x4000, b"left over")
        device.reset()
        expect_equal(device.read32(_PMC_INTR_EN_0), 0)
        expect_equal(device.read32(_PMC_INTR_SW_0), 0)
        expect_equal(device.read(1, 0x4000, 9), bytes(9))


# Interrupts.


@test("driver")
def msix_vector_is_signalled_once_for_each_interrupt():
    with open_vgpu() as (_, device), eventfds(6) as events:
        device.set_irqs(vfio.MSIX, vfio.DATA_EVENTFD | vfio.TRIGGER, 0, [e.fd for e in events])
        raise_software_interrupt(device)
        expect_equal([e.take(0.1) for e in events], [0, 0, 0, 0, 1, 0])
        raise_software_interrupt(device, False)
        raise_software_interrupt(device)
        expect_equal(events[_PMC_VECTOR].take(), 1)


@test("driver")
def intx_masks_itself_and_comes_again_while_it_is_high():
    with open_vgpu() as (_, device), eventfds(1) as (event,):
        device.set_irqs(vfio.INTX, vfio.DATA_EVENTFD | vfio.TRIGGER, 0, [event.fd])
        raise_software_interrupt(device)
        expect_equal(event.take(), 1)
        expect_equal(event.take(0.1), 0)
        device.set_irqs(vfio.INTX, vfio.DATA_NONE | vfio.UNMASK, 0, count=1)
        expect_equal(event.take(), 1)
        raise_software_interrupt(device, False)
        device.set_irqs(vfio.INTX, vfio.DATA_NONE | vfio.UNMASK, 0, count=1)
        expect_equal(event.take(0.1), 0)


@test("driver")
def intx_is_unmasked_by_an_eventfd_as_kvm_does_it():
    with open_vgpu() as (_, device), eventfds(2) as (event, unmask):
        device.set_irqs(vfio.INTX, vfio.DATA_EVENTFD | vfio.TRIGGER, 0, [event.fd])
        device.set_irqs(vfio.INTX, vfio.DATA_EVENTFD | vfio.UNMASK, 0, [unmask.fd])
        raise_software_interrupt(device)
        expect_equal(event.take(), 1)
        unmask.signal()
        expect_equal(event.take(), 1)


@test("driver")
def one_eventfd_for_signal_and_unmask_hangs_nobody():
    with open_vgpu() as (_, device), eventfds(1) as (event,):
        device.set_irqs(vfio.INTX, vfio.DATA_EVENTFD | vfio.TRIGGER, 0, [event.fd])
        device.set_irqs(vfio.INTX, vfio.DATA_EVENTFD | vfio.UNMASK, 0, [event.fd])
        raise_software_interrupt(device)
        # Whoever unmasks takes the signals, so none is left to be counted here.
        raise_software_interrupt(device, False)
        device.set_irqs(vfio.INTX, vfio.DATA_NONE | vfio.TRIGGER, 0, count=0)


@test("driver")
def interrupt_modes_exclude_each_other():
    with open_vgpu() as (_, device), eventfds(1) as (event,):
        set_eventfd = vfio.DATA_EVENTFD | vfio.TRIGGER
        device.set_irqs(vfio.MSI, set_eventfd, 0, [event.fd])
        expect_equal(errno_of(device.set_irqs, vfio.INTX, set_eventfd, 0, [event.fd]), "EINVAL")
        device.set_irqs(vfio.MSI, vfio.DATA_NONE | vfio.TRIGGER, 0, count=0)
        device.set_irqs(vfio.INTX, set_eventfd, 0, [event.fd])


@test("driver")
def bad_eventfd_changes_nothing():
    with open_vgpu() as (_, device), eventfds(7) as (*events, other):
        set_eventfd = vfio.DATA_EVENTFD | vfio.TRIGGER
        device.set_irqs(vfio.MSIX, set_eventfd, 0, [e.fd for e in events])
        expect_equal(errno_of(device.set_irqs, vfio.MSIX, set_eventfd, 4, [other.fd, 9999]), "EBADF")
        expect_equal(errno_of(device.set_irqs, vfio.MSIX, set_eventfd, 4, [other.fd] * 3), "EINVAL")
        raise_software_interrupt(device)
        expect_equal(events[_PMC_VECTOR].take(), 1)
        expect_equal(other.take(0.05), 0)


# Memory.


@test("driver")
def memory_that_is_pinned_all_the_time_can_be_unmapped():
    length, stop = 8 << 20, threading.Event()
    with open_vgpu() as (uuid, device):
        area = vfio.memory(length)

        def pin():
            while not stop.is_set():
                # Fails while nothing is mapped.
                errno_of(vfio.pin_bench, vgpu.gpu_address(), uuid, 0, 2048, 512)

        threads = [threading.Thread(target=pin) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(40):
                device.dma_map(area, 0)
                time.sleep(0.06)
                device.dma_unmap(0, length)
        finally:
            stop.set()
            for thread in threads:
                thread.join()


@test("driver")
def pin_bench_pins_every_page_and_leaves_none():
    with open_vgpu() as (uuid, device):
        area = vfio.memory(4 << 20)
        device.dma_map(area, 0)
        for batch in (1, 512):
            result = vfio.pin_bench(vgpu.gpu_address(), uuid, 0, 1024, batch)
            expect_equal((result["pages"], result["batch"], result["error"]), (1024, batch, 0))
        expect_equal(vgpu.counters(uuid)["pages_pinned"], 0)
        device.dma_unmap(0, len(area))


# The end.


@test("driver")
def remove_asks_the_user_to_let_go_and_waits_for_it():
    uuid = vgpu.create("turnstile-ts104_v4")
    with eventfds(1) as (event,), vfio.Device(uuid) as device:
        device.set_irqs(vfio.REQ, vfio.DATA_EVENTFD | vfio.TRIGGER, 0, [event.fd])
        remover = threading.Thread(target=vgpu.remove, args=(uuid,))
        remover.start()
        expect_equal(event.take(5), 1)
        expect(remover.is_alive(), "removed while it was open")
        device.close()
        remover.join(5)
        expect(not remover.is_alive(), "not removed 5 s after its close")
    expect(not pathlib.Path(f"/sys/bus/mdev/devices/{uuid}").exists(), "still there")


@test("driver")
def host_does_not_sleep_while_a_vgpu_exists():
    mode = pathlib.Path("/sys/power/pm_test")
    mode.write_text("devices")
    uuid = vgpu.create("turnstile-ts104_v4")
    state = os.open("/sys/power/state", os.O_WRONLY)
    try:
        expect_equal(errno_of(os.write, state, b"freeze"), "EBUSY")
    finally:
        os.close(state)
        vgpu.remove(uuid)
        mode.write_text("none")


_TOUCH_LOST_VRAM = """
import sys
sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]
import vfio
device = vfio.Device(sys.argv[1])
vram = device.map(1, 0, 4096)
vram[0] = 1
print("mapped", flush=True)
sys.stdin.readline()
print(vfio.errno_of(device.read32, 0), flush=True)
vram[0] = 2
"""


@test("driver")
def reset_of_the_gpu_from_outside_is_an_error_for_its_users_not_silence():
    address = vgpu.gpu_address()
    uuid = vgpu.create("turnstile-ts104_v4")
    user = subprocess.Popen(
        [sys.executable, "-c", _TOUCH_LOST_VRAM, uuid],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        expect_equal(user.stdout.readline(), "mapped\n")
        pathlib.Path(f"/sys/bus/pci/devices/{address}/reset").write_text("1")
        expect_equal(vgpu.available("turnstile-ts104_v16"), 0)
        expect_equal(user.communicate("\n", timeout=30 * patience())[0], "EIO\n")
        expect_equal(user.returncode, -signal.SIGBUS)
    finally:
        user.kill()
        user.wait()
        driver = pathlib.Path("/sys/bus/pci/drivers/turnstile")
        (driver / "unbind").write_text(address)
        (driver / "bind").write_text(address)
    wait_for(lambda: os.path.exists(f"/sys/class/mdev_bus/{address}"), 5, "no GPU")
    expect_equal(vgpu.available("turnstile-ts104_v16"), 16)
