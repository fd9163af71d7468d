# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Wrong XML, types, attributes and UUIDs: each has an answer of its own and leaves nothing behind.

What the answers are is in docs/troubleshooting.md too: every text that a case here waits for must
stand there. Runs inside the full L1.
"""

import contextlib
import dataclasses
import errno
import os
import pathlib
import re
import sys

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import vgpu
import virt
from tap import Failure, expect, expect_equal, figure, main, run, test

GUIDE = pathlib.Path("/opt/turnstile/docs/troubleshooting.md")

GPU = "0000:00:10.0"
TYPE = "turnstile-ts104_v4"
UUID = "7a11e000-0000-4000-8000-000000000009"
OTHER = "7a11e000-0000-4000-8000-000000000008"

_FILE = pathlib.Path("/tmp/input.xml")


@dataclasses.dataclass(frozen=True)
class Case:
    """A command (or a function that returns its output), and what it must answer.

    `answer` is in its output, `kernel` in a new line of the kernel's log ("" means that there is no
    new line of the driver). An … in them is any text.
    """

    what: str
    command: object
    answer: str
    kernel: str = ""


def _found(text, lines):
    pattern = ".*".join(re.escape(part) for part in text.split("…"))
    return any(re.search(pattern, line) for line in lines)


def _state():
    """All that a half made thing could be left in."""
    # Not /run/libvirt: libvirtd comes and goes when nobody calls it.
    places = ["/sys/bus/mdev/devices", "/etc/mdevctl.d", "/etc/libvirt/qemu"]
    places += ["/sys/kernel/debug/turnstile", "/sys/kernel/iommu_groups"]
    names = [str(path) for place in places for path in pathlib.Path(place).glob("*/*")]
    names += [str(path) for place in places for path in pathlib.Path(place).glob("*")]
    return sorted(names), virt.offered()


def _driver_lines(mark):
    return [line for line in virt.log_since(mark) if " turnstile " in line]


def _judge(case):
    """What is wrong with the answer to a case, or ""."""
    before, mark = _state(), virt.mark_log()
    output = case.command() if callable(case.command) else run(case.command, status=None)
    new = [line for line in _driver_lines(mark) if "iommu group" not in line]
    problems = []
    if not _found(case.answer, output.splitlines()):
        problems.append(f"expected {case.answer!r}, got {output!r}")
    if case.kernel and not _found(case.kernel, new):
        problems.append(f"expected in the kernel's log {case.kernel!r}, got {new}")
    if not case.kernel and new:
        problems.append(f"unexpected in the kernel's log: {new}")
    if _state() != before:
        problems.append(f"left behind: {set(_state()[0]) ^ set(before[0])}, {_state()[1]}")
    guide = GUIDE.read_text(encoding="utf-8").splitlines()
    problems += [
        f"{GUIDE.name} does not have {text!r}"
        for text in (case.answer, case.kernel)
        if not _in_guide(text, guide)
    ]
    return "\n  ".join([case.what, *problems]) if problems else ""


def _in_guide(text, guide):
    """Each part between two … stands in one line of the guide."""
    parts = [part.strip() for part in text.split("…")]
    return any(all(part in line for part in parts) for line in guide)


def _judge_all(cases):
    wrong = [problem for problem in map(_judge, cases) if problem]
    figure(f"{len(cases)} cases")
    expect(not wrong, "\n".join(wrong))


# Node devices.


def _device(type_id=TYPE, uuid=UUID, parent="pci_0000_00_10_0", extra="", capability="mdev"):
    return (
        f"<device><parent>{parent}</parent><capability type='{capability}'><type id='{type_id}'/>"
        f"<uuid>{uuid}</uuid>{extra}</capability></device>"
    )


def _attr(name, value):
    return f"<attr name='{name}' value='{value}'/>"


def _virsh(command, xml):
    def call():
        _FILE.write_text(xml)
        return virt.virsh(f"{command} {_FILE}", status=None)

    return call


def _define(xml):
    return _virsh("nodedev-define", xml)


def _create(xml):
    return _virsh("nodedev-create", xml)


_NODE_DEVICES = [
    Case("XML that is none", _define("<device><"), "StartTag: invalid element name"),
    Case(
        "no such capability",
        _define(_device(capability="vgpu")),
        "Invalid value for attribute 'type' in element 'capability': 'vgpu'",
    ),
    Case("no parent", _define(_device().replace("pci_0000_00_10_0", "")), "missing parent device"),
    Case(
        "no such parent",
        _define(_device(parent="pci_0000_00_11_0")),
        "invalid parent device 'pci_0000_00_11_0'",
    ),
    Case(
        "UUID that is none",
        _define(_device(uuid="7a11e000")),
        "Invalid uuid '7a11e000' for new mdev device",
    ),
    Case(
        "no such type, defined",
        _define(_device("turnstile-ts104_v3")),
        "no type 'turnstile-ts104_v3': there are",
    ),
    Case(
        "no such type, created",
        _create(_device("turnstile-ts104_v3")),
        "Parent … does not support mdev type",
    ),
    Case(
        "attribute out of range, defined",
        _define(_device(extra=_attr("turnstile/weight", 0))),
        "turnstile/weight is '0'; legal: 1 to 10000",
    ),
    Case(
        "attribute out of range, created",
        _create(_device(extra=_attr("turnstile/weight", 10001))),
        "Failed to write 10001 to attribute turnstile/weight",
        "weight 10001 is out of range: 1 to 10000",
    ),
    Case(
        "second attribute wrong, created",
        _create(
            _device(extra=_attr("turnstile/weight", 5) + _attr("turnstile/cap_percent", "half"))
        ),
        "Failed to write half to attribute turnstile/cap_percent",
        'cap_percent: "half" is no number',
    ),
    Case(
        "no such attribute, defined",
        _define(_device(extra=_attr("colour", "red"))),
        "no attribute 'colour': there are",
    ),
    Case(
        "no such attribute, created",
        _create(_device(extra=_attr("colour", "red"))),
        "Invalid attribute",
    ),
    Case(
        "no such device",
        lambda: virt.virsh(f"nodedev-start {virt.node_name(UUID)}", status=None),
        "no node device with matching name",
    ),
    Case(
        "parent that is no GPU",
        _create(_device(parent="pci_0000_00_00_0")),
        "Unable to find parent device",
    ),
    Case("no type", _define(_device("").replace("<type id=''/>", "")), "missing type id attribute"),
]


@test("host")
def input_wrong_node_devices():
    _judge_all(_NODE_DEVICES)


@test("host")
def input_node_devices_that_are_there_full_or_in_use():
    device = _device(extra="")
    with virt.vgpus() as made:
        made.append(vgpu.create(TYPE, UUID))
        _judge_all(
            [
                Case("same UUID", _create(device), "Device already exists"),
                Case("bigger than what is left", _create(_device("turnstile-ts104_v1", OTHER)),
                     "No available instances of"),
            ]
        )  # fmt: skip
        group = (virt.DEVICES / UUID / "iommu_group").resolve().name
        with open(f"/dev/vfio/{group}", "rb"):
            _judge_all(
                [
                    Case(
                        "in use",
                        lambda: virt.virsh(f"nodedev-destroy {virt.node_name(UUID)}", status=None),
                        "device in use",
                    )
                ]
            )


def _nodedev(verb):
    return lambda: virt.virsh(f"nodedev-{verb} {virt.node_name(UUID)}", status=None)


@test("host")
def input_orders_that_do_not_fit_the_state_of_a_node_device():
    _FILE.write_text(_device())
    virt.virsh(f"nodedev-define {_FILE}")
    try:
        _judge_all([Case("not started", _nodedev("destroy"), "is not active")])
        virt.virsh(f"nodedev-start {virt.node_name(UUID)}")
        _judge_all([Case("started already", _nodedev("start"), "Device is already active")])
        virt.virsh(f"nodedev-destroy {virt.node_name(UUID)}")
    finally:
        virt.virsh(f"nodedev-undefine {virt.node_name(UUID)}")
    virt.virsh(f"nodedev-create {_FILE}")
    try:
        _judge_all(
            [
                Case("autostart of one that is not kept", _nodedev("autostart"),
                     "cannot set autostart for transient device"),
                Case("undefine of one that is not kept", _nodedev("undefine"), "is not defined"),
            ]
        )  # fmt: skip
    finally:
        virt.virsh(f"nodedev-destroy {virt.node_name(UUID)}")


# mdevctl.


def _start(extra="", type_id=TYPE, uuid=UUID, parent=GPU):
    return f"mdevctl start --uuid {uuid} --parent {parent} --type {type_id} {extra}"


def _start_json(attributes):
    text = f'{{"mdev_type":"{TYPE}","start":"manual","attrs":[{attributes}]}}'
    return f"printf %s '{text}' | mdevctl start --uuid {UUID} --parent {GPU} --jsonfile /dev/stdin"


_MDEVCTL = [
    Case("UUID that is none", _start(uuid="7a11e000"), "invalid value '7a11e000' for '--uuid"),
    Case("no such parent", _start(parent="0000:00:11.0"), "Unable to find parent device"),
    Case("parent that is no GPU", _start(parent="0000:00:00.0"), "Unable to find parent device"),
    Case("no such type", _start(type_id="ts104_v4"), "Parent … does not support mdev type"),
    Case("only a UUID", f"mdevctl start --uuid {UUID}", "Device is insufficiently specified"),
    Case(
        "type, defined",
        f"mdevctl define --uuid {UUID} --parent {GPU} --type turnstile-ts104_v3",
        "no type 'turnstile-ts104_v3': there are",
    ),
    Case(
        "latency out of range",
        _start_json('{"turnstile/weight":"200"},{"turnstile/latency_us":"199"}'),
        "Failed to write 199 to attribute turnstile/latency_us",
        "latency_us 199 is out of range: 200 to 1000000, or 0",
    ),
    Case(
        "cap out of range",
        _start_json('{"turnstile/cap_percent":"101"}'),
        "Failed to write 101 to attribute turnstile/cap_percent",
        "cap_percent 101 is out of range: 1 to 100",
    ),
    Case(
        "read-only attribute",
        _start_json('{"turnstile/function":"3"}'),
        "Failed to write 3 to attribute turnstile/function",
    ),
    Case("no such attribute", _start_json('{"colour":"red"}'), "Invalid attribute"),
    Case("no folder for definitions", f"MDEVCTL_ENV_ROOT=/lab {_start()}",
         "This may indicate a packaging or installation error"),
]  # fmt: skip


@test("host")
def input_wrong_arguments_of_mdevctl():
    _judge_all(_MDEVCTL)


@test("host")
def input_mdevctl_with_a_uuid_that_is_taken():
    with virt.vgpus() as made:
        made.append(vgpu.create(TYPE, UUID))
        _judge_all(
            [
                Case("the same again", _start(), "Device already exists"),
                Case("as another type", _start(type_id="turnstile-ts104_v8"),
                     "Device exists with different type"),
            ]
        )  # fmt: skip


@test("host")
def input_attributes_of_mdevctl_are_in_force_once_it_has_started():
    attributes = '{"turnstile/weight":"250"},{"turnstile/cap_percent":"60"},'
    run(_start_json(attributes + '{"turnstile/latency_us":"700"}'))
    try:
        folder = virt.DEVICES / UUID / "turnstile"
        names = ("weight", "cap_percent", "latency_us")
        found = [(folder / name).read_text().strip() for name in names]
    finally:
        run(f"mdevctl stop --uuid {UUID}")
    expect_equal(found, ["250", "60", "700"])


# sysfs.


def _write(path, text):
    """A write that must fail; returns errno's name."""

    def call():
        handle = os.open(path, os.O_WRONLY)
        try:
            os.write(handle, text.encode())
        except OSError as error:
            return errno.errorcode[error.errno]
        finally:
            os.close(handle)
        raise Failure(f"{text!r} was taken by {path}")

    return call


def _on_vgpu(name, text, answer, kernel):
    path = virt.DEVICES / UUID / "turnstile" / name
    return Case(f"{name}={text!r}", _write(path, text), answer, kernel)


def _on_gpu(name, text, answer, kernel):
    path = pathlib.Path("/sys/bus/pci/devices") / GPU / "turnstile" / name
    return Case(f"{name}={text!r}", _write(path, text), answer, kernel)


@test("host")
def input_wrong_values_in_sysfs():
    create = vgpu.type_dir(TYPE) / "create"
    whole = vgpu.type_dir("turnstile-ts104_v1") / "create"
    with virt.vgpus() as made:
        made.append(vgpu.create(TYPE, UUID))
        _judge_all(
            [
                Case("short UUID", _write(create, UUID[:-1]), "EINVAL"),
                Case("no UUID", _write(create, "g" + UUID[1:]), "EINVAL"),
                Case("same UUID", _write(create, UUID), "EEXIST"),
                Case("no room", _write(whole, OTHER), "ENOSPC",
                     f"{OTHER}: no room for a vGPU of type ts104_v1: it wants"),
                _on_vgpu("weight", "0", "EINVAL", "weight 0 is out of range: 1 to 10000"),
                _on_vgpu("weight", "99999999999", "EINVAL", 'weight: "99999999999" is no number'),
                _on_vgpu("weight", "0x10", "EINVAL", 'weight: "0x10" is no number'),
                _on_vgpu("weight", "-1", "EINVAL", 'weight: "-1" is no number'),
                _on_vgpu("cap_percent", "101", "EINVAL",
                         "cap_percent 101 is out of range: 1 to 100"),
                _on_vgpu("latency_us", "199", "EINVAL",
                         "latency_us 199 is out of range: 200 to 1000000, or 0"),
                _on_gpu("policy", "lottery", "EINVAL", 'no policy "lottery"; legal: best_effort'),
                _on_gpu("timeslice_us", "999", "EINVAL",
                        "timeslice_us 999 is out of range: 1000 to 30000, or 0"),
                _on_gpu("arr", "yes", "EINVAL", 'arr: "yes" is no number'),
            ]
        )  # fmt: skip


# Domains.


def _domain(devices):
    return (
        "<domain type='kvm'><name>input</name><memory unit='MiB'>128</memory><os>"
        "<type arch='x86_64' machine='q35'>hvm</type><kernel>/opt/turnstile/l2/vmlinuz</kernel>"
        f"</os><devices>{devices}<memballoon model='none'/></devices></domain>"
    )


def _hostdev(uuid=UUID, attributes="model='vfio-pci'", extra="", address="uuid='@'"):
    source = f"<source><address {address.replace('@', uuid)}/></source>"
    return f"<hostdev mode='subsystem' type='mdev' {attributes}>{source}{extra}</hostdev>"


_GRAPHICS = "<graphics type='vnc'/><video><model type='none'/></video>"

_DEFINED = [
    Case("no UUID", _hostdev(address=""), "Missing 'uuid' attribute"),
    Case("UUID that is none", _hostdev("7a11e000"), "Cannot parse uuid attribute"),
    Case(
        "no model",
        _hostdev(attributes=""),
        "Missing required attribute 'model' in element 'hostdev'",
    ),
    Case(
        "no such model",
        _hostdev(attributes="model='vgpu'"),
        "Invalid value for attribute 'model'",
    ),
    Case("UUID twice", _hostdev() + _hostdev(), "already exists in the domain configuration"),
    Case(
        "address of a disk",
        _hostdev(extra="<address type='drive'/>"),
        "Unsupported address type 'drive' with mediated device model 'vfio-pci'",
    ),
    Case(
        "display without graphics",
        _hostdev(attributes="model='vfio-pci' display='on'"),
        "graphics device is needed for attribute value 'display=on'",
    ),
    Case(
        "boot from it",
        _hostdev(extra="<boot order='1'/>"),
        "booting from assigned devices is not supported by mediated devices of model vfio-pci",
    ),
]

_RAMFB = "model='vfio-pci' ramfb='on'"

_STARTED = [
    Case(
        "model of another architecture",
        _hostdev(attributes="model='vfio-ccw'"),
        "VFIO CCW device assignment",
    ),
    Case(
        "ramfb without display",
        _hostdev(attributes=_RAMFB),
        "ramfb=on requires display=on",
    ),
    Case(
        "ramfb twice",
        _hostdev(attributes=_RAMFB) + _hostdev(OTHER, attributes=_RAMFB),
        "Only one vgpu device can have 'ramfb' enabled",
    ),
    Case("no such vGPU", _hostdev(OTHER), f"mediated device '{OTHER}' not found"),
    Case(
        "display that the vGPU does not have",
        _hostdev(attributes="model='vfio-pci' display='on'") + _GRAPHICS,
        "device doesn't support any (known) display method",
    ),
]


@test("host")
def input_wrong_domains():
    _judge_all(
        [
            dataclasses.replace(case, command=_virsh("define", _domain(case.command)))
            for case in _DEFINED
        ]
    )


@contextlib.contextmanager
def _no_vfio():
    """While the block runs the host has no VFIO container."""
    os.rename("/dev/vfio/vfio", "/dev/vfio/hidden")
    try:
        yield
    finally:
        os.rename("/dev/vfio/hidden", "/dev/vfio/vfio")


@test("host")
def input_domains_that_cannot_start():
    with virt.vgpus() as made:
        made.append(vgpu.create(TYPE, UUID))
        with _no_vfio():
            _judge_all(
                [
                    Case(
                        "no VFIO",
                        _virsh("create", _domain(_hostdev())),
                        "Mediated host device assignment requires VFIO support",
                    )
                ]
            )
        _judge_all(
            [
                dataclasses.replace(case, command=_virsh("create", _domain(case.command)))
                for case in _STARTED
            ]
        )


@contextlib.contextmanager
def _gpu_lost():
    """While the block runs the GPU is one that was reset, and a vGPU was on it."""
    uuid = vgpu.create(TYPE)
    pathlib.Path(f"/sys/bus/pci/devices/{GPU}/reset").write_text("1")
    try:
        yield
    finally:
        vgpu.remove(uuid)
        driver = pathlib.Path("/sys/bus/pci/drivers/turnstile")
        (driver / "unbind").write_text(GPU)
        (driver / "bind").write_text(GPU)


@test("host")
def input_gpu_that_was_reset_offers_nothing_and_says_why():
    mark = virt.mark_log()
    with virt.nothing_left():
        with _gpu_lost():
            expect_equal(set(virt.offered().values()), {0})
            _judge_all(
                [
                    Case("create", _write(vgpu.type_dir(TYPE) / "create", UUID), "ENODEV",
                         "is gone or was reset: bind its driver anew"),
                ]
            )  # fmt: skip
        log = "\n".join(_driver_lines(mark))
        expect("reset from outside: what vGPUs had on it is lost" in log, log[-500:])
        expect("not started over (-EBUSY): remove its vGPUs" in log, log[-500:])


if __name__ == "__main__":
    main()
