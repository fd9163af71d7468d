# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The manual page and bash's completion against the program: manual_test.py PROGRAM MAN BASH."""

import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
MANUAL = pathlib.Path(sys.argv.pop(1)).read_text(encoding="utf-8")
COMPLETION = sys.argv.pop(1)


def usage(*words):
    """(long and short options, commands) that --help of a command lists."""
    text = subprocess.run(
        [PROGRAM, *words, "--help"], capture_output=True, text=True, check=True
    ).stdout
    options, commands, part = set(), set(), ""
    for line in text.splitlines():
        if line in ("Options:", "Subcommands:", ""):
            part = line
        elif part == "Options:" and line.startswith("  -"):
            options |= set(re.findall(r"(?<![\w-])--?[a-z]+", line.split()[0].replace(",", " ")))
        elif part == "Subcommands:" and re.match(r"  \w", line):
            commands.add(line.split()[0])
    return options, commands


def completions(*words):
    """What bash offers for the last of the words."""
    script = f"""
        source {COMPLETION}
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        compopt() {{ :; }}
        _turnstile_smi turnstile-smi "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(
        ["bash", "-c", script, "bash", "turnstile-smi", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(result.stdout.split())


class ManualTest(unittest.TestCase):
    def test_the_manual_has_every_option_and_no_other(self):
        options = usage()[0] | usage("trace")[0]
        named = set()
        for line in MANUAL.splitlines():
            if line.startswith((".It Fl ", ".Fl ")):
                flags = re.match(r"\.(?:It )?Fl ((?:[\w-]+ , )*[\w-]+)", line)[1].split(" , ")
                named |= {f"-{flag}" for flag in flags}
        self.assertEqual(named, options)

    def test_the_manual_has_every_command_and_no_other(self):
        commands = usage()[1] - {"sched"} | {f"sched {name}" for name in usage("sched")[1]}
        named = set(re.findall(r"^\.It Cm ([a-z ]+?)(?: Ar .*)?$", MANUAL, re.M))
        self.assertEqual(named, commands)


class CompletionTest(unittest.TestCase):
    def test_it_offers_every_command(self):
        self.assertEqual(completions(""), usage()[1])

    def test_it_offers_every_option(self):
        self.assertEqual(completions("-"), usage()[0])
        self.assertEqual(completions("trace", "-"), usage()[0] | usage("trace")[0])

    def test_it_goes_on_with_the_commands_of_sched(self):
        self.assertEqual(completions("sched", ""), usage("sched")[1])

    def test_it_offers_what_begins_as_the_word_does(self):
        self.assertEqual(completions("sched", "set", "we"), {"weight="})
        self.assertEqual(completions("do"), {"doctor"})

    def test_it_offers_no_command_for_a_number(self):
        self.assertEqual(completions("-l", ""), set())


if __name__ == "__main__":
    unittest.main()
