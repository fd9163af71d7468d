# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The XML in libvirt_xml/, used as it is. Runs inside the full L1."""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import dmesg
import l2
import vgpu
import virt
from tap import expect, expect_equal, figure, main, run, test, wait_for
from virt import virsh

_XML = pathlib.Path("/opt/turnstile/libvirt_xml")
_LOGS = pathlib.Path("/var/log/libvirt/qemu")
_IMAGES = pathlib.Path("/var/lib/libvirt/images")

FIRST = "7a11e000-0000-4000-8000-000000000001"
SECOND = "7a11e000-0000-4000-8000-000000000002"


class Guest:
    """A domain of libvirt_xml/ whose guest runs one command and powers off."""

    def __init__(self, file, command):
        self.file = _XML / file
        self.name = ElementTree.parse(self.file).findtext("name")
        self._initrd = _IMAGES / f"{self.name}.initrd"
        self._initrd.write_bytes(l2.pack(command))

    def __enter__(self):
        virsh(f"define {self.file}")
        virsh(f"start {self.name}")
        return self

    def text(self, port):
        """What the guest has written to a serial port: "console" or "output"."""
        path = _LOGS / f"{self.name}.{port}"
        return path.read_text(errors="replace") if path.exists() else ""

    def finish(self):
        """Waits until the guest is off; returns what its command printed. It must succeed."""
        wait_for(self._is_off, virt.GUEST_SECONDS, f"{self.name} is not off")
        match = re.search(r"^(.*)^lab-guest: exit (\d+)", self.text("output"), re.S | re.M)
        expect(match, f"{self.name} has no status: {self.text('console')}{self.text('output')}")
        expect(match[2] == "0", f"{self.name}: status {match[2]}\n{match[1]}")
        expect_equal(dmesg.bad_lines(self.text("console")), [])
        return match[1]

    def _is_off(self):
        return virt.domain_state(self.name) == "shut off"

    def __exit__(self, *_):
        if not self._is_off():
            virsh(f"destroy {self.name}")
        virsh(f"undefine {self.name}")
        self._initrd.unlink()
        for path in _LOGS.glob(f"{self.name}.*"):
            path.unlink()


class Devices:
    """vGPUs of node-device files: defined and started, at the end gone again."""

    def __init__(self, *files):
        self.names = [ElementTree.parse(_XML / file).findtext("name") for file in files]
        self._files = files

    def __enter__(self):
        for file, name in zip(self._files, self.names):
            virsh(f"nodedev-define {_XML / file}")
            virsh(f"nodedev-start {name}")
        return self

    def __exit__(self, *_):
        for name in self.names:
            virsh(f"nodedev-destroy {name}")
            virsh(f"nodedev-undefine {name}")


def _attribute(uuid, name):
    return (virt.DEVICES / uuid / "turnstile" / name).read_text().strip()


@test("host")
def xml_files_are_valid_for_virt_xml_validate():
    files = sorted(_XML.glob("*.xml"))
    checked = [file for file in files if ElementTree.parse(file).getroot().tag != "hostdev"]
    for file in checked:
        run(f"virt-xml-validate {file}")
    expect(len(checked) >= 6, f"only {files}")
    figure(f"{len(checked)} files")


@test("host")
def xml_hostdev_is_taken_by_attach_and_detach():
    with virt.nothing_left(), virt.Domain([]) as domain:
        virsh(f"attach-device {domain.name} {_XML / 'hostdev.xml'} --config")
        found = ElementTree.fromstring(virsh(f"dumpxml {domain.name}"))
        addresses = found.findall("devices/hostdev/source/address")
        expect_equal([address.get("uuid") for address in addresses], [FIRST])
        virsh(f"detach-device {domain.name} {_XML / 'hostdev.xml'} --config")
        expect("<hostdev" not in virsh(f"dumpxml {domain.name}"), "still there")


@test("host")
def xml_device_is_defined_started_set_to_autostart_and_taken_away():
    name = ElementTree.parse(_XML / "device.xml").findtext("name")
    with virt.nothing_left():
        virsh(f"nodedev-define {_XML / 'device.xml'}")
        expect(name in virsh("nodedev-list --cap mdev --inactive").split(), "not defined")
        virsh(f"nodedev-start {name}")
        expect_equal((virt.DEVICES / FIRST / "mdev_type").resolve().name, "turnstile-ts104_v4")
        virsh(f"nodedev-autostart {name}")
        expect("yes" in virsh(f"nodedev-info {name} | grep Autostart"), "no autostart")
        virsh(f"nodedev-autostart {name} --disable")
        virsh(f"nodedev-destroy {name}")
        expect(not (virt.DEVICES / FIRST).exists(), "still there")
        virsh(f"nodedev-undefine {name}")


def _shown_attributes(name):
    """{attribute: value} of a node device, as libvirt has it."""
    top = ElementTree.fromstring(virsh(f"nodedev-dumpxml {name}"))
    return {a.get("name"): a.get("value") for a in top.findall("capability/attr")}


@test("host")
def xml_attributes_are_set_at_start_shown_and_changed_while_it_runs():
    with virt.nothing_left(), Devices("device-attrs.xml") as devices:
        (name,) = devices.names
        wanted = {"weight": "200", "cap_percent": "80", "latency_us": "5000"}
        expect_equal({key: _attribute(SECOND, key) for key in wanted}, wanted)
        # libvirtd asks mdevctl for them in its own time.
        shown = {f"turnstile/{key}": value for key, value in wanted.items()}
        wait_for(lambda: _shown_attributes(name) == shown, 10, f"libvirt does not show {shown}")
        changed = pathlib.Path("/tmp/changed.xml")
        text = (_XML / "device-attrs.xml").read_text().replace('value="200"', 'value="300"')
        changed.write_text(text)
        virsh(f"nodedev-update {name} {changed} --live --config")
        expect_equal(_attribute(SECOND, "weight"), "300")
        expect("300" in run(f"mdevctl list --defined --uuid {SECOND} --dumpjson"), "not kept")
        # A wrong one changes nothing.
        changed.write_text(text.replace('value="300"', 'value="0"'))
        answer = virsh(f"nodedev-update {name} {changed} --live", status=None)
        expect("turnstile/weight is '0'; legal: 1 to 10000" in answer, answer)
        expect_equal(_attribute(SECOND, "weight"), "300")
        changed.unlink()


_COMPUTE = "ts104-run vecadd"


@test("host")
def xml_domains_with_attributes_and_with_an_iommu_compute():
    with virt.nothing_left(), Devices("device.xml", "device-attrs.xml"):
        command = f"{_COMPUTE} && ls /sys/kernel/iommu_groups | wc -l"
        with (
            Guest("domain-viommu.xml", command) as viommu,
            Guest("domain-attrs.xml", _COMPUTE) as attributes,
        ):
            attributes.finish()
            expect(int(viommu.finish().split()[-1]) > 0, "the guest has no IOMMU")
        for uuid in (FIRST, SECOND):
            expect_equal(vgpu.counters(uuid)["pages_pinned"], 0)


@test("host")
def xml_domain_with_two_vgpus_computes_on_both():
    command = "set -e; for node in /dev/dri/renderD*; do ts104-run --device $node vecadd; done"
    with virt.nothing_left(), Devices("device.xml", "device-attrs.xml"):
        with Guest("domain-two.xml", command) as guest:
            guest.finish()
        for uuid in (FIRST, SECOND):
            expect(vgpu.counters(uuid)["gpu_time_ns"] > 0, f"{uuid} did nothing")


if __name__ == "__main__":
    main()
