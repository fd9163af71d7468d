# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of libvirt_xml/generate by its command line."""

import pathlib
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]

A = "7a11e000-0000-4000-8000-00000000000a"
B = "7a11e000-0000-4000-8000-00000000000b"

DEVICE = ["device", "--uuid", A, "--parent", "0000:00:10.0", "--type", "turnstile-ts104_v4"]
DOMAIN = ["domain", "--uuid", A, "--name", "guest", "--kernel", "/k"]


def generate(*arguments):
    command = [sys.executable, ROOT / "libvirt_xml/generate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class GenerateTest(unittest.TestCase):
    def document(self, *arguments):
        result = generate(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return ElementTree.fromstring(result.stdout)

    def refused(self, status, text, *arguments):
        """Fails unless `arguments` end with `status` and one line that holds `text`."""
        result = generate(*arguments)
        self.assertEqual((result.returncode, result.stdout), (status, ""))
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("generate: "), result.stderr)
        self.assertIn(text, result.stderr)

    def test_device_names_parent_type_and_uuid(self):
        top = self.document(*DEVICE)
        self.assertEqual(top.findtext("parent"), "pci_0000_00_10_0")
        self.assertEqual(top.find("capability/type").get("id"), "turnstile-ts104_v4")
        self.assertEqual(top.findtext("capability/uuid"), A)
        self.assertEqual(top.findall("capability/attr"), [])

    def test_attributes_are_files_of_the_vgpu(self):
        top = self.document(*DEVICE, "--weight", "200", "--cap-percent", "80", "--latency-us", "0")
        found = {attr.get("name"): attr.get("value") for attr in top.findall("capability/attr")}
        wanted = {
            "turnstile/weight": "200",
            "turnstile/cap_percent": "80",
            "turnstile/latency_us": "0",
        }
        self.assertEqual(found, wanted)

    def test_uuid_is_written_in_lower_case(self):
        self.assertEqual(self.document("hostdev", "--uuid", A.upper())[0][0].get("uuid"), A)

    def test_domain_has_a_hostdev_for_each_uuid(self):
        top = self.document(*DOMAIN, "--uuid", B)
        found = [address.get("uuid") for address in top.findall("devices/hostdev/source/address")]
        self.assertEqual(found, [A, B])

    def test_viommu_shows_mappings_to_vfio(self):
        top = self.document(*DOMAIN, "--viommu", "--append", "quiet")
        self.assertEqual(top.find("devices/iommu/driver").get("caching_mode"), "on")
        self.assertEqual(top.findtext("os/cmdline"), "quiet intel_iommu=on")

    def test_spare_port_has_room_for_a_vgpu_and_no_device_that_is_there_from_the_start(self):
        top = self.document(*DOMAIN, "--spare-port", "256", "--spare-port", "257")
        ports = top.findall("devices/controller[@model='pcie-root-port']")
        self.assertEqual([port.get("index") for port in ports], ["1", "2", "3", "4"])
        aliases = [None if p.find("alias") is None else p.find("alias").get("name") for p in ports]
        self.assertEqual(aliases, [None, None, "ua-spare0", "ua-spare1"])
        # 32 MiB in KiB, for BAR0 of 16 MiB.
        reserved = [port.find("target").get("memReserve") for port in ports[2:]]
        self.assertEqual(reserved, ["32768", "32768"])
        self.assertEqual(top.find("devices/hostdev/address").get("bus"), "0x02")
        usb = top.find("devices/controller[@type='usb']/address")
        self.assertEqual(usb.get("bus"), "0x01")
        qemu = "{http://libvirt.org/schemas/domain/qemu/1.0}"
        values = [entry.get("value") for entry in top.iter(f"{qemu}property")]
        # Twice the next power of two: 512 MiB and 1 GiB in bytes.
        self.assertEqual(values, ["536870912", "1073741824"])

    def test_domain_without_a_vgpu_wants_a_spare_port(self):
        domain = ["domain", "--name", "guest", "--kernel", "/k"]
        top = self.document(*domain, "--spare-port", "64")
        self.assertEqual(top.findall("devices/hostdev"), [])
        self.refused(2, "--spare-port", *domain)

    def test_text_is_escaped(self):
        top = self.document(*DOMAIN, "--append", "a<b>&\"c'")
        self.assertEqual(top.findtext("os/cmdline"), "a<b>&\"c'")

    def test_every_kind_of_bad_input_has_its_status(self):
        device = ["device", "--uuid", A, "--parent", "0000:00:10.0"]
        v4 = ["--type", "turnstile-ts104_v4"]
        cases = [
            (2, "DOCUMENT"),
            (2, "--uuid", "hostdev"),
            (2, "--colour", "hostdev", "--uuid", A, "--colour\nred"),
            (2, "--weight", "hostdev", "--uuid", A, "--weight", "1"),
            (2, "not allowed with", *DOMAIN, "--disk", "/d"),
            (3, "5 characters", "hostdev", "--uuid", "A\nB12"),
            (3, "35 characters", "hostdev", "--uuid", A[:-1]),
            (4, "turnstile-ts104_v16", *device, "--type", "turnstile-ts104_v3"),
            (5, "0000:00:10.0", "device", "--uuid", A, *v4, "--parent", "pci_0000_00_10_0"),
            (5, "0000:00:20.0", "device", "--uuid", A, *v4, "--parent", "0000:00:20.0"),
            (6, "1 to 10000", *DEVICE, "--weight", "0"),
            (6, "1 to 10000", *DEVICE, "--weight", "10001"),
            (6, "1 to 10000", *DEVICE, "--weight", "much"),
            (7, "1 to 100", *DEVICE, "--cap-percent", "101"),
            (8, "200 to 1000000 or 0", *DEVICE, "--latency-us", "199"),
            (9, "2 times", *DOMAIN, "--uuid", A.upper()),
            (10, "2 UUIDs", "hostdev", "--uuid", A, "--uuid", B),
            (11, "letters", "domain", "--uuid", A, "--kernel", "/k", "--name", "a/b"),
            (12, "128 to 1048576", *DOMAIN, "--memory", "127"),
            (13, "1 to 255", *DOMAIN, "--vcpus", "0"),
            (14, "begin with /", *DOMAIN, "--initrd", "initrd"),
            (15, "--kernel", "domain", "--uuid", A, "--name", "n", "--disk", "/d", "--append", "a"),
            (15, "printed", *DOMAIN, "--append", "a\x01"),
            (16, "4 to 16384", *DOMAIN, "--spare-port", "3"),
            (16, "4 to 16384", *DOMAIN, "--spare-port", "16385"),
            (16, "17 spare ports", *DOMAIN, *17 * ["--spare-port", "64"]),
        ]
        for status, text, *arguments in cases:
            with self.subTest(arguments):
                self.refused(status, text, *arguments)

    def test_seventeen_vgpus_are_too_many(self):
        uuids = [word for n in range(16) for word in ("--uuid", f"{A[:-2]}{n + 16:x}")]
        self.refused(10, "17 UUIDs", *DOMAIN, *uuids)

    def test_help_lists_every_exit_status(self):
        text = generate("--help").stdout
        for status in range(2, 17):
            self.assertRegex(text, rf"(?m)(^| ) ?{status} +\S")

    def test_ranges_are_the_drivers(self):
        text = (ROOT / "mdev_driver/core/sched/sched_params.h").read_text()
        table = text.split("kVgpuSchedRanges[] = {")[1].split("};")[0]
        ranges = re.findall(r'\{"(\w+)", (\d+), (\d+), (\w+)\}', table)
        self.assertEqual([name for name, *_ in ranges], ["weight", "cap_percent", "latency_us"])
        for name, least, most, zero in ranges:
            option = f"--{name.replace('_', '-')}"
            legal = [least, most] + (["0"] if zero == "true" else [])
            for value in legal:
                self.assertEqual(generate(*DEVICE, option, value).returncode, 0)
            for value in (int(least) - 1, int(most) + 1):
                if str(value) not in legal:
                    self.assertNotEqual(generate(*DEVICE, option, str(value)).returncode, 0)

    def test_types_are_the_drivers(self):
        text = (ROOT / "mdev_driver/core/vgpu_type.h").read_text()
        names = re.findall(r'\{"(ts104_v\d+)", \d+\}', text)
        self.assertEqual(len(names), 5)
        for name in names:
            self.document(*DEVICE[:-1], f"turnstile-{name}")


if __name__ == "__main__":
    unittest.main()
