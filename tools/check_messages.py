#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Checks that docs/troubleshooting.md has every complaint of the host driver and its scripts.

A reader looks for the message that he sees. What differs from case to case is … in the guide; the
parts between must stand in one line of it.
"""

import argparse
import pathlib
import re
import sys

GUIDE = "docs/troubleshooting.md"

_STRING = r'"(?:[^"\\]|\\.)*"'
_STRINGS = rf"(?:{_STRING}\s*)+"
# A kernel message; dev_info() and pr_info() are no complaints.
_KERNEL = re.compile(
    rf'\b(?:dev|pr)_(?:err|warn|notice)(?:_ratelimited)?\((?:[^";]*?,\s*)?(?:\w+\s*)?({_STRINGS})'
)
_FORMAT = re.compile(r"%(?:\*pE|pe|[0-9.*]*(?:ll|z|h)?[a-zA-Z])")
# A LogLine of the core with what is streamed into it.
_CORE = re.compile(rf'\bLogLine\([^;]*?\)\s*<<((?:[^;"]|{_STRING})*);')
_OUTSIDE_STRINGS = r'(?=(?:[^"]*"[^"]*")*[^"]*$)'
_SHELL = re.compile(rf"(?:\bfail ({_STRING})|\becho ({_STRING}) >&2)")
_VARIABLE = re.compile(r"\$(?:\{[^}]*\}|\w+|\*)")


def _joined(strings):
    text = "".join(piece[1:-1] for piece in re.findall(_STRING, strings))
    return text.replace("\\n", "").replace('\\"', '"')


def _kernel_messages(text):
    for match in _KERNEL.finditer(text):
        yield match.start(), _FORMAT.sub("…", _joined(match[1]))


def _core_messages(text):
    for match in _CORE.finditer(text):
        words = [word.strip() for word in re.split("<<" + _OUTSIDE_STRINGS, match[1])]
        yield match.start(), "".join(
            _joined(word) if re.fullmatch(_STRINGS, word) else "…" for word in words
        )


def _shell_messages(text):
    for match in _SHELL.finditer(text):
        message = _joined(match[1] or match[2])
        if not message.startswith("usage:"):
            yield match.start(), _VARIABLE.sub("…", message)


def messages(root):
    """[(path, line, message)] of everything that the host's parts complain of."""
    places = [(path, _kernel_messages) for path in (root / "mdev_driver/linux").glob("*.c")]
    places += [(path, _core_messages) for path in (root / "mdev_driver/core").rglob("*.cc")]
    places += [(path, _shell_messages) for path in (root / "mdev_driver/dist").glob("turnstile-*")]
    found = []
    for path, function in sorted(places, key=lambda place: place[0]):
        text = path.read_text(encoding="utf-8")
        for start, message in function(text):
            found.append((path.relative_to(root), text.count("\n", 0, start) + 1, message))
    return found


def _is_in(message, guide):
    parts = [part.strip(" :;,") for part in message.split("…")]
    parts = [part for part in parts if re.search("[a-z]{2}", part)]
    return any(all(part in line for part in parts) for line in guide)


def check(root):
    """Complaints about messages that the guide does not have."""
    guide = (root / GUIDE).read_text(encoding="utf-8").splitlines()
    return [
        f"{path}:{line}: {GUIDE} does not have {message!r}"
        for path, line, message in messages(root)
        if not _is_in(message, guide)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    root = parser.parse_args().root
    errors = check(root)
    print("\n".join([*errors, f"{len(messages(root))} messages, {len(errors)} not in {GUIDE}"]))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
