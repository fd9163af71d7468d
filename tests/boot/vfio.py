# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A VFIO user in Python: what QEMU does with a vGPU, call by call. Runs inside L1."""

import ctypes
import errno
import fcntl
import mmap
import os
import pathlib
import select
import struct

from tap import patience

CONFIG = 7
INTX, MSI, MSIX, ERR, REQ = range(5)
DATA_NONE, DATA_BOOL, DATA_EVENTFD = 1, 2, 4
MASK, UNMASK, TRIGGER = 8, 16, 32
READ, WRITE, MMAP, CAPS = 1, 2, 4, 8

_TYPE1V2 = 3
(_SET_IOMMU, _SET_CONTAINER, _GET_DEVICE_FD, _GET_INFO, _GET_REGION, _GET_IRQ, _SET_IRQS, _RESET) = (
    0x3B64 + n for n in (2, 4, 6, 7, 8, 9, 10, 11)
)
_MAP_DMA, _UNMAP_DMA = 0x3B64 + 13, 0x3B64 + 14
_UNMAP_ALL = 2
_PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


class Region:
    """One region as the driver describes it; `areas` are the (offset, size) that may be mapped."""

    def __init__(self, size, flags, offset, areas):
        self.size, self.flags, self.offset, self.areas = size, flags, offset, areas


class Device:
    """An open vGPU with a container of its own."""

    def __init__(self, uuid):
        self._files = []
        try:
            group = os.readlink(f"/sys/bus/mdev/devices/{uuid}/iommu_group").rpartition("/")[2]
            self._container = self._open("/dev/vfio/vfio")
            group_fd = self._open(f"/dev/vfio/{group}")
            fcntl.ioctl(group_fd, _SET_CONTAINER, struct.pack("i", self._container))
            fcntl.ioctl(self._container, _SET_IOMMU, _TYPE1V2)
            self.fd = fcntl.ioctl(group_fd, _GET_DEVICE_FD, bytearray(uuid.encode() + b"\0"), True)
            self._files.append(self.fd)
        except OSError:
            self.close()
            raise

    def _open(self, path):
        self._files.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        return self._files[-1]

    def close(self):
        """Lets go of it; mappings keep it open."""
        for fd in reversed(self._files):
            os.close(fd)
        self._files = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # What it is.

    def info(self):
        """(flags, number of regions, number of interrupt indexes)."""
        data = bytearray(struct.pack("IIII", 16, 0, 0, 0))
        fcntl.ioctl(self.fd, _GET_INFO, data)
        return struct.unpack("IIII", data)[1:]

    def region(self, index):
        """The Region `index`."""
        size = 32
        while True:
            data = bytearray(struct.pack("IIIIQQ", size, 0, index, 0, 0, 0)).ljust(size, b"\0")
            fcntl.ioctl(self.fd, _GET_REGION, data)
            needed, flags, _, first, length, offset = struct.unpack_from("IIIIQQ", data)
            if needed <= size:
                break
            size = needed
        areas = []
        if flags & CAPS:
            identity, version, _, count = struct.unpack_from("HHII", data, first)
            assert (identity, version) == (1, 1)
            areas = [struct.unpack_from("QQ", data, first + 16 + 16 * i) for i in range(count)]
        return Region(length, flags, offset, areas)

    def irq(self, index):
        """(flags, count) of an interrupt index."""
        data = bytearray(struct.pack("IIII", 16, 0, index, 0))
        fcntl.ioctl(self.fd, _GET_IRQ, data)
        _, flags, _, count = struct.unpack("IIII", data)
        return flags, count

    # Access.

    def read(self, index, offset, length):
        """Bytes of a region."""
        return os.pread(self.fd, length, self.region(index).offset + offset)

    def write(self, index, offset, data):
        """Writes bytes to a region; returns how many were taken."""
        return os.pwrite(self.fd, data, self.region(index).offset + offset)

    def read32(self, offset):
        """A register."""
        return struct.unpack("<I", self.read(0, offset, 4))[0]

    def write32(self, offset, value):
        """Writes a register."""
        self.write(0, offset, struct.pack("<I", value))

    def map(self, index, offset, length, flags=mmap.MAP_SHARED):
        """A mapping of part of a region."""
        return mmap.mmap(self.fd, length, flags, offset=self.region(index).offset + offset)

    def reset(self):
        """VFIO_DEVICE_RESET."""
        fcntl.ioctl(self.fd, _RESET)

    # Interrupts.

    def set_irqs(self, index, flags, start=0, data=(), count=None):
        """VFIO_DEVICE_SET_IRQS; `data` are descriptors or bools as `flags` says."""
        kind = "i" if flags & DATA_EVENTFD else "B"
        payload = struct.pack(f"{len(data)}{kind}", *data)
        count = len(data) if count is None else count
        head = struct.pack("IIIII", 20 + len(payload), flags, index, start, count)
        fcntl.ioctl(self.fd, _SET_IRQS, head + payload)

    # Memory of the user that the device may reach.

    def dma_map(self, memory, iova):
        """Offers `memory`, an anonymous mmap, at `iova`."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        data = struct.pack("IIQQQ", 32, READ | WRITE, address, iova, len(memory))
        fcntl.ioctl(self._container, _MAP_DMA, data)

    def dma_unmap(self, iova, length):
        """Takes it away; returns when the device cannot reach it."""
        fcntl.ioctl(self._container, _UNMAP_DMA, bytearray(struct.pack("IIQQ", 24, 0, iova, length)))


class Eventfd:
    """An eventfd that tells how often it was signalled."""

    def __init__(self):
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def take(self, seconds=0.3):
        """How many signals came, waiting at most `seconds` for the first."""
        if not select.select([self.fd], [], [], seconds * patience())[0]:
            return 0
        return os.eventfd_read(self.fd)

    def signal(self):
        """Signals it."""
        os.eventfd_write(self.fd, 1)

    def close(self):
        """Closes it."""
        os.close(self.fd)


def unmap_everything_of(pid):
    """Takes all memory of another process's container away, as if that had asked for it."""
    links = pathlib.Path(f"/proc/{pid}/fd").iterdir()
    theirs = next(int(link.name) for link in links if os.readlink(link) == "/dev/vfio/vfio")
    process = os.pidfd_open(pid)
    container = _libc.syscall(_PIDFD_GETFD, process, theirs, 0)
    os.close(process)
    if container < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    try:
        fcntl.ioctl(container, _UNMAP_DMA, bytearray(struct.pack("IIQQ", 24, _UNMAP_ALL, 0, 0)))
    finally:
        os.close(container)


def memory(length):
    """Anonymous memory that is there."""
    area = mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
    area[::4096] = b"\1" * (length // 4096)
    return area


def errno_of(function, *arguments, **named):
    """The name of the errno that `function` fails with; "" when it works."""
    try:
        function(*arguments, **named)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return ""


def pin_bench(address, uuid, gpa, pages, batch):
    """Pins and unpins `pages` pages with `batch` in a call; {"pin_ns": …}. Needs the vGPU open."""
    path = pathlib.Path("/sys/kernel/debug/turnstile") / address / uuid / "pin_bench"
    path.write_text(f"{gpa} {pages} {batch}")
    return {k: int(v) for k, _, v in (line.partition("=") for line in path.read_text().splitlines())}
