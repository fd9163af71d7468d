# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of mdev_driver/dist/turnstile-callout, called as mdevctl does, on a sysfs of files."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CALLOUT = ROOT / "mdev_driver/dist/turnstile-callout"
UUID = "7a11e000-0000-4000-8000-00000000000c"


class CalloutTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.device = self.root / "sys/bus/mdev/devices" / UUID / "turnstile"
        self.device.mkdir(parents=True)
        for name, value in (("weight", 250), ("cap_percent", 60), ("latency_us", 700)):
            (self.device / name).write_text(f"{value}\n")

    def call(self, event, action, attributes=(), type_id="turnstile-ts104_v4", text=None):
        """Runs it with the JSON of a device on stdin, laid out as mdevctl lays it out."""
        attrs = [{name: str(value)} for name, value in attributes]
        document = {"mdev_type": type_id, "start": "manual", "attrs": attrs}
        options = ["-t", type_id, "-e", event, "-a", action, "-s", "none", "-u", UUID, "-p", "x"]
        return subprocess.run(
            ["sh", CALLOUT, *options],
            input=json.dumps(document, indent=2) if text is None else text,
            env={**os.environ, "MDEVCTL_ENV_ROOT": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )

    def refused(self, result, text):
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(text, result.stderr)

    def values(self):
        return [
            (self.device / name).read_text().strip()
            for name in ("weight", "cap_percent", "latency_us")
        ]

    def test_device_of_another_driver_is_left_to_others(self):
        self.assertEqual(self.call("pre", "define", type_id="nvidia-63").returncode, 2)

    def test_capabilities_name_live_changes(self):
        supports = json.loads(self.call("get", "capabilities").stdout)["supports"]
        self.assertEqual(supports["version"], 2)
        self.assertIn("live", supports["events"])

    def test_attributes_are_what_the_vgpu_has(self):
        found = json.loads(self.call("get", "attributes").stdout)
        wanted = [
            {"turnstile/weight": "250"},
            {"turnstile/cap_percent": "60"},
            {"turnstile/latency_us": "700"},
        ]
        self.assertEqual(found, wanted)

    def test_definition_without_attributes_is_taken(self):
        self.assertEqual(self.call("pre", "define").returncode, 0)
        compact = '{"mdev_type":"turnstile-ts104_v4","start":"auto"}'
        self.assertEqual(self.call("pre", "define", text=compact).returncode, 0)

    def test_unknown_type_is_refused(self):
        self.refused(self.call("pre", "define", type_id="turnstile-ts104_v3"), "ts104_v3")

    def test_unknown_attribute_is_refused(self):
        for name in ("weight", "turnstile/colour", "turnstile/", "turnstile/../weight"):
            self.refused(self.call("pre", "modify", [(name, 1)]), f"no attribute '{name}'")

    def test_second_attribute_is_judged_as_well(self):
        attributes = [("turnstile/weight", 1), ("turnstile/cap_percent", 0)]
        self.refused(self.call("pre", "define", attributes), "cap_percent is '0'; legal: 1 to 100")

    def test_what_is_no_number_is_refused(self):
        for value in ("", "x", "-1", "0x10", "1 2", "99999999999", "$(id)", "*"):
            result = self.call("pre", "define", [("turnstile/weight", value)])
            self.refused(result, "legal: 1 to 10000")

    def test_text_that_is_not_as_mdevctl_writes_it_is_refused(self):
        for attrs in ('[{"turnstile/weight":1}]', '[{"turnstile/weight":"1"', '"x"'):
            text = f'{{"attrs":{attrs}}}'
            self.refused(self.call("pre", "define", text=text), "mdevctl's JSON")

    def test_ranges_and_types_are_the_drivers(self):
        params = (ROOT / "mdev_driver/core/sched/sched_params.h").read_text()
        table = params.split("kVgpuSchedRanges[] = {")[1].split("};")[0]
        ranges = re.findall(r'\{"(\w+)", (\d+), (\d+), (\w+)\}', table)
        self.assertEqual(len(ranges), 3)
        for name, least, most, zero in ranges:
            first, last = int(least), int(most)
            values = {first - 1: False, first: True, last: True, last + 1: False}
            values[0] = zero == "true"
            for value, legal in values.items():
                status = self.call("pre", "define", [(f"turnstile/{name}", value)]).returncode
                self.assertEqual(status, 0 if legal else 1, (name, value))
        types = (ROOT / "mdev_driver/core/vgpu_type.h").read_text()
        for name in re.findall(r'\{"(ts104_v\d+)", \d+\}', types):
            self.assertEqual(self.call("pre", "define", type_id=f"turnstile-{name}").returncode, 0)

    def test_live_change_sets_what_is_named_and_the_default_of_the_rest(self):
        result = self.call("live", "modify", [("turnstile/weight", 400)])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.values(), ["400", "100", "0"])

    def test_live_change_with_a_wrong_value_changes_nothing(self):
        attributes = [("turnstile/weight", 400), ("turnstile/latency_us", 1)]
        self.refused(self.call("live", "modify", attributes), "legal: 200 to 1000000 or 0")
        self.assertEqual(self.values(), ["250", "60", "700"])

    def test_start_is_left_to_the_driver(self):
        self.assertEqual(self.call("pre", "start", [("turnstile/weight", 0)]).returncode, 0)


if __name__ == "__main__":
    unittest.main()
