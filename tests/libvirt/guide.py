# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Follows a guide in docs/ literally: runs its commands in order and compares what they print.

In the guide, code that is to be followed stands in fences with a second word:

    ```sh run        commands; each must succeed
    ```sh fails      commands, of which the last must fail
    ```sh reboot     the machine boots anew: what comes after is for follow(…, boot=2)
    ```text shows    lines that the commands before it printed, in this order; … is any text,
                     a line of its own any lines

Variables and the directory last from one block to the next, as in the user's shell.
"""

import pathlib
import re
import subprocess

from tap import Failure, expect

# Where the user stands: libvirt_xml/generate and lab/l2.py are below.
_TURNSTILE = pathlib.Path("/opt/turnstile")

_FENCE = re.compile(r"^```(\w+) (run|fails|shows|reboot)\n(.*?)^```$", re.S | re.M)
_END = re.compile(r"@@ (\d+)\n")


def blocks(path):
    """[(line, kind, text)] of the blocks to be followed."""
    text = path.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 1, match[2], match[3])
        for match in _FENCE.finditer(text)
    ]


# A block is a function, so that it ends with the first command that fails; its variables stay.
_BLOCK = """\
block() {{
{text}
}}
block </dev/null
echo "@@ $block_status"
block_status=0
"""

_START = """\
block_status=0
set -E
trap 'block_status=$?; if [ -n "${FUNCNAME:-}" ]; then return "$block_status"; fi' ERR
"""


class Shell:
    """A user's shell: bash that takes one block after another."""

    def __init__(self, directory, environment=None):
        self._process = subprocess.Popen(
            ["bash", "--norc"], cwd=directory, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._process.stdin.write(_START)

    def run(self, text):
        """Runs a block until a command of it fails; returns (status, output)."""
        self._process.stdin.write(_BLOCK.format(text=text.rstrip("\n")))
        self._process.stdin.flush()
        output = ""
        for line in self._process.stdout:
            match = _END.match(line)
            if match:
                return int(match[1]), output
            output += line
        raise Failure(f"the shell ended:\n{output}")

    def close(self):
        """Ends the shell."""
        self._process.stdin.close()
        self._process.wait()


def shown(pattern, output):
    """Whether `output` holds the lines of `pattern` in their order."""
    rest = [line.strip() for line in output.splitlines()]
    for line in pattern.splitlines():
        if line.strip() in ("", "…"):
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in line.strip().split("…")))
        while rest and not wanted.fullmatch(rest[0]):
            rest.pop(0)
        if not rest:
            return False
        rest.pop(0)
    return True


def follow(name, boot=1):
    """Follows the part of a guide in docs/ that is for this boot; returns how many blocks it ran."""
    path = _TURNSTILE / "docs" / name
    shell, output, count, now = Shell(_TURNSTILE), "", 0, 1
    try:
        for line, kind, text in blocks(path):
            now += kind == "reboot"
            if now != boot or kind == "reboot":
                continue
            where = f"{path.name}:{line}"
            if kind == "shows":
                expect(shown(text, output), f"{where}: not shown:\n{text}\nbut:\n{output}")
                continue
            status, output = shell.run(text)
            right = status != 0 if kind == "fails" else status == 0
            expect(right, f"{where}: status {status} of\n{text}{output}")
            count += 1
    finally:
        shell.close()
    expect(count > 0, f"{path.name} has nothing to follow")
    return count
