# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""turnstile-smi as a program, on the trees of data/: cli_test.py PROGRAM SCHEMA."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import schema
import tree

PROGRAM = sys.argv.pop(1)
SCHEMA = json.loads(pathlib.Path(sys.argv.pop(1)).read_text(encoding="utf-8"))
UUID_VM = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a01"
UUID_RUN = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a02"


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.files = tree.entries("first.tree")

    def run_smi(self, *arguments):
        """What became of it."""
        return subprocess.run(
            [PROGRAM, "--root", self.root, *arguments], capture_output=True, text=True, check=False
        )

    def output(self, *arguments):
        """Standard output, whatever the status."""
        return self.run_smi(*arguments).stdout

    def smi(self, *arguments, status=0):
        """Standard output; both outputs when it is to fail."""
        result = self.run_smi(*arguments)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout + result.stderr if status else result.stdout

    def test_every_document_fits_the_schema(self):
        tree.unpack(self.root, self.files)
        for arguments in ([], ["-q"], ["-s"], ["-c"], ["--sample", "10"], ["sched", "show"],
                          ["-u", "-n", "1", "-l", "0.05"], ["sched", "log"], ["orphans"]):  # fmt: skip
            document = json.loads(self.smi("--json", *arguments))
            self.assertEqual(schema.problems(document, SCHEMA), [], arguments)

    def test_what_the_doctor_finds_fits_the_schema_and_is_the_exit_status(self):
        tree.unpack(self.root, self.files)
        document = json.loads(self.output("--json", "doctor"))
        self.assertEqual(schema.problems(document, SCHEMA), [])
        wrong = [f["what"] for f in document["findings"] if f["verdict"] == "wrong"]
        self.assertEqual(wrong, ["VFIO"])
        self.smi("doctor", status=1)
        tree.unpack(self.root, {"/dev/vfio/vfio": ("=", "")})
        self.assertIn("0 wrong", self.smi("doctor"))

    def test_the_doctor_needs_no_driver(self):
        self.assertIn("turnstile is not installed for kernel ", self.output("doctor"))

    def test_a_document_that_lacks_a_member_does_not_fit(self):
        tree.unpack(self.root, self.files)
        document = json.loads(self.smi("--json"))
        del document["gpus"][0]["vgpus"][0]["weight"]
        self.assertNotEqual(schema.problems(document, SCHEMA), [])

    def test_top_prints_frames_where_there_is_no_terminal(self):
        tree.unpack(self.root, self.files)
        text = self.smi("top", "-n", "2", "-l", "0.05")
        self.assertEqual(text.count("GPU 0000:00:10.0  weighted  2 vGPUs"), 2)
        self.assertNotIn("\033", text)

    def test_a_trace_needs_tracefs(self):
        tree.unpack(self.root, self.files)
        self.assertIn("there is no /sys/kernel/tracing/instances: ", self.smi("trace", status=1))
        self.assertFalse(pathlib.Path("turnstile-trace.json").exists())

    def test_an_id_selects_a_gpu_or_a_vgpu(self):
        tree.unpack(self.root, self.files)
        for name, expected in ((UUID_RUN.upper(), [UUID_RUN]), (UUID_VM, [UUID_VM])):
            document = json.loads(self.smi("--json", "-i", name))
            self.assertEqual([v["mdev_uuid"] for v in document["gpus"][0]["vgpus"]], expected)
        self.assertIn("VRAM 384 MiB of 1024 MiB given out  2 vGPUs", self.smi("-i", UUID_VM))
        for name in (tree.GPU, "00:10.0"):
            document = json.loads(self.smi("--json", "-i", name))
            self.assertEqual(len(document["gpus"][0]["vgpus"]), 2)

    def test_an_id_that_is_not_there_is_status_5(self):
        tree.unpack(self.root, self.files)
        self.assertEqual(
            self.smi("-i", "00:11.0", status=5),
            "turnstile-smi: 00:11.0: no GPU has this PCI address and no vGPU this UUID\n",
        )

    def test_no_driver_is_status_3_and_no_gpu_status_4(self):
        self.assertEqual(
            self.smi(status=3), "turnstile-smi: the driver is not loaded: modprobe turnstile\n"
        )
        tree.unpack(self.root, {"/sys/module/turnstile/srcversion": ("=", "x\n")})
        self.assertEqual(
            self.smi(status=4), "turnstile-smi: the driver turnstile has no GPU\n"
        )

    def test_what_does_not_go_together_is_status_2(self):
        tree.unpack(self.root, self.files)
        for arguments in (["-q", "-s"], ["-s", "metrics"], ["-n", "2"], ["metrics", "--json"],
                          ["--colour"], ["-l", "0"], ["sched"], ["sched", "set"],
                          ["sched", "set", "colour=1"], ["sched", "set", "--json", "arr=1"],
                          ["-q", "top"], ["top", "--json"], ["trace", "--json"], ["orphans", "-l", "1"],
                          ["trace", "--seconds", "0"], ["doctor", "-i", UUID_VM]):  # fmt: skip
            self.smi(*arguments, status=2)

    def test_a_setting_is_written_and_shown(self):
        tree.unpack(self.root, self.files)
        self.assertEqual(
            self.smi("sched", "set", "-i", UUID_RUN, "weight=200"), "weight: 300 -> 200\n"
        )
        self.assertEqual(
            self.smi("sched", "set", "policy=latency"), "policy: weighted -> latency\n"
        )

    def test_no_setting_is_written_when_one_is_not_understood(self):
        tree.unpack(self.root, self.files)
        self.smi("sched", "set", "-i", UUID_RUN, "weight=200", "wait=3", status=2)
        document = json.loads(self.smi("--json", "-i", UUID_RUN))
        self.assertEqual(document["gpus"][0]["vgpus"][0]["weight"], 300)

    def test_sixteen_vgpus(self):
        tree.unpack(self.root, tree.multiplied(self.files, UUID_RUN, 16))
        self.assertEqual(len(json.loads(self.smi("--json"))["gpus"][0]["vgpus"]), 16)
        self.assertEqual(self.smi().count("unused"), 16)

    def test_output_that_cannot_be_written_is_status_1(self):
        tree.unpack(self.root, self.files)
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run(
                [PROGRAM, "--root", self.root], stdout=full, stderr=subprocess.PIPE, check=False
            )
        self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
