# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Every line that turnstile.ko can write to the kernel's log is in docs/troubleshooting.md."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Calls of printk's family with their format, and LogLine with all that is streamed into it.
_PRINTK = re.compile(r"\b(?:dev|pr)_(?:err|warn|notice)\w*\(([^;]*);", re.S)
_LOG_LINE = re.compile(r"\bLogLine\(([^;]*);", re.S)
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SHORTEST = 12


def pieces(source):
    """The literal parts of all lines in a source file, without those too short to be looked for."""
    for call in (*_PRINTK.findall(source), *_LOG_LINE.findall(source)):
        for text in _TEXT.findall(call):
            text = text.replace('\\"', '"').replace("\\n", "")
            for piece in re.split(r"%[-*#0-9]*(?:ll)?[a-zA-Z]E?", text):
                if len(piece.strip()) >= _SHORTEST:
                    yield piece.strip()


class TroubleshootingTest(unittest.TestCase):
    def test_every_line_of_the_driver_is_in_the_guide(self):
        guide = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
        files = [*(ROOT / "mdev_driver").rglob("*.c"), *(ROOT / "mdev_driver").rglob("*.cc")]
        found = {piece for path in files for piece in pieces(path.read_text(encoding="utf-8"))}
        self.assertGreater(len(found), 25)
        self.assertEqual(sorted(piece for piece in found if piece not in guide), [])


if __name__ == "__main__":
    unittest.main()
