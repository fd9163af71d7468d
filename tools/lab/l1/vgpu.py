# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The host driver as L1's user sees it: types, capacity, creating and removing vGPUs, counters."""

import errno
import json
import pathlib
import subprocess
import time
import uuid as uuid_module

_BUS = pathlib.Path("/sys/class/mdev_bus")
_DEVICES = pathlib.Path("/sys/bus/mdev/devices")


def gpu_address(timeout=10):
    """The PCI address of the first GPU that offers vGPUs; waits for it. Raises RuntimeError."""
    deadline = time.monotonic() + timeout
    while True:
        found = sorted(entry.name for entry in _BUS.iterdir()) if _BUS.is_dir() else []
        if found:
            return found[0]
        if time.monotonic() > deadline:
            raise RuntimeError("no GPU offers vGPUs: /sys/class/mdev_bus is empty")
        time.sleep(0.1)


def type_dir(type_id):
    """The sysfs directory of the type with this id."""
    return _BUS / gpu_address() / "mdev_supported_types" / type_id


def types():
    """The ids of all types."""
    return sorted(entry.name for entry in (_BUS / gpu_address() / "mdev_supported_types").iterdir())


def available(type_id):
    """How many more vGPUs of the type can be made now."""
    return int((type_dir(type_id) / "available_instances").read_text())


def create(type_id, uuid=None):
    """Makes a vGPU; returns its UUID. Raises OSError as the kernel answers."""
    uuid = uuid or str(uuid_module.uuid4())
    _write(type_dir(type_id) / "create", uuid)
    return uuid


def remove(uuid):
    """Removes a vGPU; returns when it is gone."""
    _write(_DEVICES / uuid / "remove", "1")


def dump(name, uuid=""):
    """A file of the driver in debugfs, of the GPU or of a vGPU: {name: text} of each line."""
    path = pathlib.Path("/sys/kernel/debug/turnstile") / gpu_address() / uuid / name
    lines = path.read_text().splitlines()
    return [dict(word.split("=", 1) for word in line.split()) for line in lines]


def counters(uuid):
    """All figures of a vGPU as {name: value}."""
    return {name: int(text) for line in dump("counters", uuid) for name, text in line.items()}


def devlink_name():
    """The first GPU's name for devlink."""
    return f"pci/{gpu_address()}"


def health(reporter):
    """What devlink counted for a health reporter of the GPU: its state, error and recover."""
    command = ["devlink", "-j", "health", "show", devlink_name(), "reporter", reporter]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found["health"][devlink_name()][0]


def sched(uuid):
    """What the scheduler accounted for a vGPU: for each runlist {name: value}, as debugfs has it."""
    return [{name: int(text) for name, text in line.items()} for line in dump("sched", uuid)]


class Tenant:
    """A vGPU and the guest on it, if there is one (`guest`, an l2.Guest)."""

    def __init__(self, type_id):
        self.uuid = create(type_id)
        self.guest = None

    def resets(self):
        """How often its vGPU was reset."""
        return counters(self.uuid)["resets"]

    def account(self):
        """What the scheduler accounted on the runlist of the graphics engine."""
        return sched(self.uuid)[0]

    def end(self):
        """Kills the guest."""
        if self.guest is not None:
            self.guest.kill()


def gpu_dir():
    """The GPU's attributes in sysfs."""
    return pathlib.Path("/sys/bus/pci/devices") / gpu_address() / "turnstile"


def vgpu_dir(uuid):
    """A vGPU's attributes in sysfs."""
    return _DEVICES / uuid / "turnstile"


def set_gpu(name, value):
    """Writes an attribute of the GPU. Raises OSError as the kernel answers."""
    _write(gpu_dir() / name, str(value))


def set_vgpu(uuid, name, value):
    """Writes an attribute of a vGPU. Raises OSError as the kernel answers."""
    _write(vgpu_dir(uuid) / name, str(value))


def policy():
    """The scheduling policy in force."""
    return (gpu_dir() / "policy").read_text().strip()


def expect_errno(name, function, *arguments):
    """Calls `function`, which must fail with the errno `name`; returns what is wrong, or ""."""
    try:
        function(*arguments)
    except OSError as error:
        got = errno.errorcode.get(error.errno, str(error.errno))
        return "" if got == name else f"expected {name}, got {got}"
    return f"expected {name}, but it worked"


def _write(path, text):
    # One write(2), unbuffered: its errno is the answer.
    with open(path, "wb", buffering=0) as stream:
        stream.write(text.encode())
