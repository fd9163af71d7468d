#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Compares the XML files beside it with what `generate` writes; --write writes them.

They are used as they are by tests/libvirt, on a host whose GPU is at 0000:00:10.0.
"""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

_LICENCE = "<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->\n"

_FIRST = "7a11e000-0000-4000-8000-000000000001"
_SECOND = "7a11e000-0000-4000-8000-000000000002"

_DEVICE = "--parent 0000:00:10.0 --type turnstile-ts104_v4"
_ATTRIBUTES = "--weight 200 --cap-percent 80 --latency-us 5000"

_APPEND = "console=ttyS0 loglevel=5 panic=-1 random.trust_cpu=on tsc=reliable watchdog_thresh=60"


def _domain(name, *options):
    return [
        *["domain", "--name", name, "--memory", "512", "--vcpus", "1"],
        *["--kernel", "/opt/turnstile/l2/vmlinuz"],
        *["--initrd", f"/var/lib/libvirt/images/{name}.initrd"],
        *["--append", _APPEND],
        *["--serial", f"/var/log/libvirt/qemu/{name}.console"],
        *["--serial", f"/var/log/libvirt/qemu/{name}.output"],
        *options,
    ]


# What each file is generated with.
EXAMPLES = {
    "device.xml": ["device", "--uuid", _FIRST, *_DEVICE.split()],
    "device-attrs.xml": ["device", "--uuid", _SECOND, *_DEVICE.split(), *_ATTRIBUTES.split()],
    "hostdev.xml": ["hostdev", "--uuid", _FIRST],
    "domain.xml": _domain("guest", "--uuid", _FIRST),
    "domain-attrs.xml": _domain("guest-attrs", "--uuid", _SECOND),
    "domain-two.xml": _domain("guest-two", "--uuid", _FIRST, "--uuid", _SECOND),
    "domain-spare.xml": _domain("guest-spare", "--spare-port", "256"),
    "domain-viommu.xml": _domain("guest-viommu", "--uuid", _FIRST, "--viommu"),
}


def generated(arguments):
    """The text of the file that is generated with `arguments`."""
    command = [sys.executable, HERE / "generate", *arguments]
    return _LICENCE + subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main():
    """Exit status 1 and a line per file that differs or does not belong here."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    strangers = sorted({path.name for path in HERE.glob("*.xml")} - set(EXAMPLES))
    wrong = [f"{name}: not an example" for name in strangers]
    for name, arguments in EXAMPLES.items():
        path, text = HERE / name, generated(arguments)
        if write:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong.append(f"{name}: not what generate writes; run libvirt_xml/examples.py --write")
    print("\n".join(wrong) or "examples: ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
