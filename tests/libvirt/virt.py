# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""libvirt and mdevctl as an operator uses them, domains that take orders. Inside the full L1."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import uuid as uuid_module

sys.path[:0] = ["/opt/turnstile/lab"]

import dmesg
import l2
import libvirt
import libvirt_qemu
import vgpu
from tap import Failure, expect, expect_equal, run, wait_for

DEVICES = pathlib.Path("/sys/bus/mdev/devices")
MODULE = "/opt/turnstile/modules/turnstile.ko"
TYPES = [f"turnstile-ts104_v{n}" for n in (1, 2, 4, 8, 16)]
# Of everything that waits for a guest: the machine may be busy.
GUEST_SECONDS = 600

_IMAGES = pathlib.Path("/var/lib/libvirt/images/lab")

# Runs in the guest: takes shell text line by line from its third port, answers there.
_AGENT = """
stty -F /dev/ttyS2 raw -echo
exec 4<>/dev/ttyS2
echo '@@ ready'
while read -r line <&4; do
  sh -c "$line" >&4 2>&1 </dev/null
  echo "@@ $?" >&4
done
"""


def virsh(arguments, status=0, timeout=GUEST_SECONDS):
    """Runs virsh; returns its output. A `status` of None takes any but 0."""
    return run(f"virsh -q {arguments}", timeout, status)


_host = None


def _of_domain(name, question):
    """question(domain) of libvirt. For loops: virsh takes a second of L1's CPU each time."""
    global _host
    if _host is None:
        libvirt.registerErrorHandler(lambda *_: None, None)  # it is raised as well
    try:
        return question(_host.lookupByName(name))
    except (AttributeError, libvirt.libvirtError):  # not connected yet, or libvirtd was stopped
        _host = libvirt.open("qemu:///system")
        return question(_host.lookupByName(name))


_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: "running",
    libvirt.VIR_DOMAIN_PAUSED: "paused",
    libvirt.VIR_DOMAIN_SHUTDOWN: "in shutdown",
    libvirt.VIR_DOMAIN_SHUTOFF: "shut off",
    libvirt.VIR_DOMAIN_CRASHED: "crashed",
}


def domain_state(name):
    """The state of a domain, as virsh says it."""
    number, _ = _of_domain(name, lambda domain: domain.state())
    return _STATES.get(number, str(number))


def timed(function, *arguments, **keywords):
    """(seconds, result) of a call."""
    begin = time.monotonic()
    result = function(*arguments, **keywords)
    return time.monotonic() - begin, result


def percentile(values, share):
    """The value below which `share` percent of `values` are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) * share // 100, len(ordered) - 1)]


def parent():
    """libvirt's name of the GPU."""
    return "pci_" + re.sub("[:.]", "_", vgpu.gpu_address())


def node_name(uuid):
    """libvirt's name of a mediated device."""
    return f"mdev_{uuid.replace('-', '_')}_{re.sub('[:.]', '_', vgpu.gpu_address())}"


def kernel_log():
    """L1's kernel log so far."""
    return subprocess.run(["dmesg"], stdout=subprocess.PIPE, check=True).stdout.decode()


def mark_log():
    """Writes a line into L1's kernel log, which log_since() finds again.

    Its length says nothing: once it is full, each new line pushes an old one out.
    """
    mark = f"lab-mark {uuid_module.uuid4()}"
    pathlib.Path("/dev/kmsg").write_text(f"<7>{mark}\n")
    return mark


def log_since(mark):
    """The lines of L1's kernel log after that of mark_log()."""
    lines = kernel_log().splitlines()
    found = [number for number, line in enumerate(lines) if mark in line]
    expect(found, "the kernel's log is too short for what was written since")
    return lines[found[0] + 1 :]


def offered():
    """{type: available_instances}."""
    return {type_id: vgpu.available(type_id) for type_id in TYPES}


EMPTY = {f"turnstile-ts104_v{n}": n for n in (1, 2, 4, 8, 16)}


def inventory(libvirt=True):
    """Everything that could be left behind: vGPUs, definitions, domains, what the types offer."""
    groups = pathlib.Path("/sys/kernel/iommu_groups")
    return {
        "groups": sorted(p.name for p in groups.iterdir()),
        "devices": sorted(p.name for p in DEVICES.iterdir()),
        "defined": run("mdevctl list --defined").split(),
        "domains": virsh("list --all --name").split() if libvirt else [],
        "offered": offered(),
        "debugfs": sorted(
            p.name for p in pathlib.Path("/sys/kernel/debug/turnstile").glob("*/*")
        ),
    }


@contextlib.contextmanager
def nothing_left(libvirt=True):
    """Fails when the block leaves something behind."""
    before = inventory(libvirt)
    yield
    expect_equal(inventory(libvirt), before)


@contextlib.contextmanager
def vgpus(*type_ids):
    """New vGPUs, in a list of UUIDs; gone at the end, whatever happened."""
    uuids = []
    try:
        for type_id in type_ids:
            uuids.append(vgpu.create(type_id))
        yield uuids
    finally:
        for uuid in uuids:
            if (DEVICES / uuid).exists():
                vgpu.remove(uuid)


def device_xml(uuid, type_id):
    """Node-device XML of a vGPU, in a file."""
    path = pathlib.Path(f"/tmp/{uuid}.xml")
    path.write_text(
        f"<device><parent>{parent()}</parent><capability type='mdev'>"
        f"<type id='{type_id}'/><uuid>{uuid}</uuid></capability></device>\n"
    )
    return path


def hostdev_xml(uuid, extra=""):
    """XML of an attached vGPU."""
    return (
        f"<hostdev mode='subsystem' type='mdev' model='vfio-pci' {extra}>"
        f"<source><address uuid='{uuid}'/></source></hostdev>"
    )


def hostdev_file(uuid):
    """The same in a file, for attach-device and detach-device."""
    path = pathlib.Path(f"/tmp/hostdev-{uuid}.xml")
    path.write_text(hostdev_xml(uuid))
    return path


class Domain:
    """A domain with vGPUs, its guest ruled through a serial port.

    `with Domain(…) as domain` defines it and takes it away again; start() boots it. Its kernel's
    log is judged at the end. `kernel` is the end of the names of its files in /opt/turnstile/l2.
    """

    def __init__(
        self, uuids, name=None, memory_mib=384, top="", devices="", balloon="none",
        kernel="",
    ):  # fmt: skip
        self.name = name or f"guest-{uuid_module.uuid4().hex[:6]}"
        self.uuids = list(uuids)
        self._memory_mib = memory_mib
        self._top = top
        self._devices = devices
        self._balloon = balloon
        self._kernel = kernel
        self._socket = None
        self._starts = 0
        self.directory = pathlib.Path(f"/var/lib/libvirt/qemu/lab-{self.name}")

    def xml(self):
        """The domain's XML."""
        hostdevs = "".join(hostdev_xml(uuid) for uuid in self.uuids)
        return f"""<domain type='kvm'>
  <name>{self.name}</name>
  <memory unit='MiB'>{self._memory_mib}</memory>
  <vcpu>1</vcpu>
  {self._top}
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>/opt/turnstile/l2/vmlinuz{self._kernel}</kernel>
    <initrd>{_initrd(self._kernel)}</initrd>
    <cmdline>{l2.CMDLINE}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='host-passthrough'>{_NUMA if "maxMemory" in self._top else ""}</cpu>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type='usb' model='none'/>
    <controller type='pci' model='pcie-root'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/>
    <serial type='file'><source path='{self.directory}/console' append='on'/>
      <target port='0'/></serial>
    <serial type='file'><source path='{self.directory}/output' append='on'/>
      <target port='1'/></serial>
    <serial type='unix'><source mode='bind' path='{self.directory}/agent'/>
      <target port='2'/></serial>
    {hostdevs}{self._devices}
    <memballoon model='{self._balloon}'/>
  </devices>
</domain>
"""

    def __enter__(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        shutil.chown(self.directory, "libvirt-qemu")
        self.define()
        return self

    def define(self):
        """Defines the domain as it is now; also when it is defined already."""
        path = self.directory / "domain.xml"
        path.write_text(self.xml().replace("@NUMA@", str(self._memory_mib)))
        virsh(f"define {path}")

    def __exit__(self, kind, *_):
        self.disconnect()
        if self.state() != "shut off":
            virsh(f"destroy {self.name}")
        virsh(f"undefine {self.name}")
        if kind is None:
            self.judge_log()
        shutil.rmtree(self.directory, ignore_errors=True)

    def judge_log(self):
        """Fails when the guest's kernel has complained."""
        expect_equal(dmesg.bad_lines(self._text("console")), [])

    def discard_log(self):
        """Forgets what the guest's kernel has complained of: the test has broken it."""
        os.truncate(self.directory / "console", 0)

    def _text(self, name):
        path = self.directory / name
        return path.read_text(errors="replace") if path.exists() else ""

    def ready_marks(self):
        """How many times the guest has booted in all, and taken the first order."""
        return self._text("output").count("@@ ready")

    def begin(self):
        """Starts it and returns the seconds that virsh took; the guest still boots."""
        self.disconnect()
        self.expect_boot()
        return timed(virsh, f"start {self.name}")[0]

    def start(self):
        """Starts it and waits until the guest takes orders; returns virsh's seconds."""
        seconds = self.begin()
        self.wait_ready()
        return seconds

    def wait_ready(self):
        """Waits until the guest has booted once more since expect_boot() or begin()."""
        deadline = time.monotonic() + GUEST_SECONDS
        while self.ready_marks() <= self._starts:
            if time.monotonic() > deadline or self.state() != "running":
                raise Failure(
                    f"{self.name} did not boot, it is {self.state()}; its console:\n"
                    + self._text("console")[-1500:]
                    + self._text("output")[-500:]
                    + _tail(pathlib.Path(f"/var/log/libvirt/qemu/{self.name}.log"))
                )
            time.sleep(0.2)
        # Not before: QEMU drops what it has not yet read of an order when the port is closed.
        self.disconnect()

    def expect_boot(self):
        """Before something that makes the guest boot anew: wait_ready() then waits for that."""
        self._starts = self.ready_marks()

    def state(self):
        """As virsh says it."""
        return domain_state(self.name)

    def live_xml(self):
        """Its XML as it is now."""
        return _of_domain(self.name, lambda domain: domain.XMLDesc())

    def monitor(self, command):
        """Gives QEMU's monitor a command; returns what it says."""
        flags = libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
        return _of_domain(
            self.name, lambda domain: libvirt_qemu.qemuMonitorCommand(domain, command, flags)
        )

    def disconnect(self):
        """Closes the port of orders."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def send(self, command):
        """Gives an order; answer() waits for what comes."""
        if not self._socket:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(str(self.directory / "agent"))
        self._socket.sendall(command.encode() + b"\n")

    def answer(self, timeout=GUEST_SECONDS):
        """(status, output) of the last order."""
        data = b""
        self._socket.settimeout(timeout)
        while True:
            try:
                piece = self._socket.recv(4096)
            except socket.timeout:
                piece = b""
            if not piece:
                raise Failure(f"{self.name}: no answer, only {data[-2000:]!r}")
            data += piece
            match = re.search(rb"(?:^|\n)@@ (\d+)\r?\n", data)
            if match:
                text = data[: match.start()].decode(errors="replace")
                return int(match[1]), text.replace("\r\n", "\n")

    def guest(self, command, status=0, timeout=GUEST_SECONDS):
        """Runs shell text in the guest; returns its output. None takes any status but 0."""
        self.send(command)
        got, text = self.answer(timeout)
        right = got != 0 if status is None else got == status
        expect(right, f"{self.name}: {command}: status {got}\n{text[-2000:]}")
        return text

    def compute(self, programs="vecadd"):
        """Runs GPU programs in the guest; all must be verified."""
        self.send(f"ts104-run --json {programs}")
        self.computed()

    def compute_without_end(self):
        """Starts a GPU program in the guest that never ends; returns when its pages are pinned."""
        (uuid,) = self.uuids
        self.send("ts104-run --placement sysmem endless")
        wait_for(lambda: vgpu.counters(uuid)["pages_pinned"] > 0, GUEST_SECONDS, "nothing pinned")

    def computed(self):
        """Waits for programs of ts104-run --json; all must be verified. Returns their reports."""
        status, text = self.answer()
        expect(status == 0, f"{self.name}: ts104-run: status {status}\n{text[-2000:]}")
        report = json.loads(text[text.index("{") : text.rindex("}") + 1])
        expect(report["programs"], "no program ran")
        for program in report["programs"]:
            expect(program["verified"] is True, f"not verified: {program}")
        return report["programs"]

    def detach(self, uuid):
        """Plugs a vGPU out; returns when the guest has let go of it."""
        virsh(f"detach-device {self.name} {hostdev_file(uuid)}")
        wait_for(
            lambda: uuid not in self.live_xml(), GUEST_SECONDS, f"{uuid} is not out of {self.name}"
        )

    def qemu_pid(self):
        """The process id of its QEMU."""
        return int(pathlib.Path(f"/run/libvirt/qemu/{self.name}.pid").read_text())

    def wait_off(self, seconds=GUEST_SECONDS):
        """Waits until libvirt knows that it is off."""
        wait_for(lambda: self.state() == "shut off", seconds, f"{self.name} is not off")


    def is_well(self):
        """Whether it runs, answers, and its driver has its vGPU."""
        if self.state() != "running":
            return False
        self.disconnect()
        try:
            self.send("test -e /dev/dri/renderD128")
            return self.answer(120)[0] == 0
        except (Failure, OSError):
            return False


_standing = None
_STANDING_TYPE = "turnstile-ts104_v4"
# Memory can be plugged in.
GROWS = "<maxMemory slots='4' unit='MiB'>1536</maxMemory>"


def _adopted():
    """The guest as a script before has left it, or a new one. Its memory can grow and shrink."""
    old = "standing" in virsh("list --all --name").split()
    uuids = []
    if old:
        uuids = re.findall("<address uuid='(.*?)'", virsh("dumpxml --inactive standing"))
    domain = Domain(
        uuids or [vgpu.create(_STANDING_TYPE)], "standing", top=GROWS, balloon="virtio"
    )
    if not old:
        domain.__enter__()
    return domain


def standing():
    """The guest that many tests of several scripts share: one boot. It has one vGPU.

    A test may leave it off or broken: the next one finds it started anew.
    """
    global _standing
    if _standing is None:
        _standing = _adopted()
    if not _standing.is_well():
        if _standing.state() != "shut off":
            virsh(f"destroy {_standing.name}")
        if not (DEVICES / _standing.uuids[0]).exists():
            vgpu.create(_STANDING_TYPE, _standing.uuids[0])
        _standing.start()
    return _standing


def end_standing():
    """Takes the guest away; fails when its kernel has complained."""
    if "standing" not in virsh("list --all --name").split():  # --only has left out who wants it
        return
    domain = _standing or _adopted()
    try:
        domain.__exit__(None, None, None)
    finally:
        vgpu.remove(domain.uuids[0])


_NUMA = "<numa><cell id='0' cpus='0' memory='@NUMA@' unit='MiB'/></numa>"


def _tail(path, characters=1500):
    return path.read_text(errors="replace")[-characters:] if path.exists() else ""


def _initrd(kernel):
    """The initramfs of guests with a kernel, with the agent in it, made once."""
    path = _IMAGES / f"initrd{kernel}"
    if not path.exists():
        _IMAGES.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(".new")
        made.write_bytes(l2.pack(_AGENT, base=f"initramfs{kernel}"))
        os.rename(made, path)
    return path
