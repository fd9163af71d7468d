# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The packages on a KVM host that never saw Turnstile: install, upgrade, remove, purge.

In a root of the release that is not booted. /debs and /later hold the packages of VERSION and LATER.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

sys.path[:0] = ["/tests/boot"]

from tap import expect, expect_equal, figure, main, run, test

_VERSION, _LATER = os.environ["VERSION"], os.environ["LATER"]
_BOTH = ("12", "13")
_SNAPSHOT = pathlib.Path("/var/tmp/before.json")
# What apt and dpkg write about every package, and caches that other programs make anew.
_BOOKKEEPING = re.compile(
    r"/var/(lib/(dpkg|apt|systemd)|cache|log)/|/etc/ld\.so\.cache|/var/tmp/|/var/lib/dkms/mok\."
    r"|/usr/lib/modules/[^/]*/modules\.|/etc/(group|passwd|shadow|gshadow)-?$|/root/"
)


def _kernel(kind=""):
    """The release of the installed kernel whose headers are there: "cloud" or the usual one."""
    found = [path.parent.name for path in pathlib.Path("/lib/modules").glob("*/build")]
    (release,) = [name for name in found if ("cloud" in name) == (kind == "cloud")]
    return release


def _debs(folder):
    return " ".join(str(path) for path in sorted(pathlib.Path(folder).glob("*.deb")))


def _packages():
    """{package: version} of ours that dpkg has in whole."""
    text = run("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'")
    ours = r"^(\S*(?:turnstile|ts104)\S*) (\S+) ii *$"
    return dict(re.findall(ours, text, re.M))


def _files():
    """Every path but those of other file systems, of bookkeeping and of the lab."""
    text = run("find / -xdev -not -type d -printf '%p\\n' -o -type d -printf '%p/\\n'", timeout=600)
    paths = {path for path in text.splitlines() if not _BOOKKEEPING.search(path)}
    return {path for path in paths if not path.startswith(("/proc/", "/sys/", "/dev/", "/tmp/"))}


def _apt(arguments):
    return run(f"eatmydata apt-get -y -o Dpkg::Use-Pty=0 {arguments}", timeout=1500)


def _module(name, kernel):
    """The module that DKMS installed for a kernel, as modinfo has it; None: there is none."""
    result = subprocess.run(
        ["modinfo", "-k", kernel, name], capture_output=True, text=True, check=False
    )
    return result.stdout if result.returncode == 0 else None


def _has_guest_driver():
    return not _kernel().startswith("6.1.")


@test("install", _BOTH)
def packages_install_on_a_host_that_never_saw_turnstile():
    _SNAPSHOT.write_text(json.dumps(sorted(_files())))
    text = _apt(f"install --no-install-recommends {_debs('/debs')}")
    expect("turnstile-dkms" in _packages(), text[-3000:])
    expect_equal(set(_packages().values()), {_VERSION})
    figure(f"{len(_packages())} packages")


@test("install", _BOTH)
def dkms_has_built_the_host_driver_for_the_kernel_of_the_release():
    kernel = _kernel()
    described = _module("turnstile", kernel)
    expect(described, run("dkms status"))
    expect(f"/lib/modules/{kernel}/updates/dkms/turnstile.ko" in described, described)
    expect(re.search(r"^depends: .*\bmdev\b", described, re.M), described)
    expect_equal(
        run(f"dkms status -m turnstile -k {kernel}").strip(),
        f"turnstile/{_VERSION}, {kernel}, x86_64: installed",
    )


@test("install", _BOTH)
def guest_driver_is_built_where_its_kernel_can_have_it():
    described = _module("ts104", _kernel())
    expect_equal(described is not None, _has_guest_driver())
    expect("ts104-guest-dkms" in _packages(), "not installed in whole")


@test("install", _BOTH)
def cloud_kernel_gets_no_module_and_a_reason():
    cloud = _kernel("cloud")
    expect_equal(_module("turnstile", cloud), None)
    text = run(f"dkms build -m turnstile -v {_VERSION} -k {cloud}", status=77)
    expect("BUILD_EXCLUSIVE" in text and "does not match this kernel" in text, text)
    # And nothing is left half configured.
    expect_equal(run("dpkg --audit"), "")


@test("install", _BOTH)
def tools_run_and_say_that_there_is_no_driver():
    text = run("turnstile-smi", status=3)
    expect_equal(text, "turnstile-smi: the driver is not loaded: modprobe turnstile\n")
    run("ts104-run --help; turnstile-exporter --help")
    uuid = "7a11e000-0000-4000-8000-00000000000b"
    text = run(f"turnstile-xml hostdev --uuid {uuid}")
    expect(f"uuid='{uuid}'" in text.replace('"', "'"), text)


@test("install", _BOTH)
def units_are_there_and_the_exporter_is_not_enabled():
    run("systemctl is-enabled turnstile-autostart.service")
    expect_equal(run("systemctl is-enabled turnstile-exporter.service", status=1), "disabled\n")


_PROGRAM = """\
#include <cstdio>
#include <libts104/stream.h>
#include <ts104_programs.h>

int main() {
  try {
    auto device = libts104::Device::Open("/dev/null", "vfio");
  } catch (const libts104::Error& error) {
    std::puts(error.what());
    return 7;
  }
}
"""


@test("install", _BOTH)
def program_of_somebody_else_builds_against_the_library():
    _apt("install pkgconf")
    try:
        pathlib.Path("/var/tmp/program.cc").write_text(_PROGRAM)
        run(
            "cd /var/tmp && g++ -std=c++20 -Wall -Wextra -Werror program.cc -o program "
            "$(pkgconf --cflags --libs libts104)",
            timeout=600,
        )
        text = run("/var/tmp/program", status=7)
        expect("/dev/null" in text, text)
    finally:
        _apt("purge --autoremove pkgconf")


@test("install", ("13",))
def qemu_of_the_package_has_the_gpu():
    text = run("qemu-system-x86_64-ts104 -device ts104,help")
    expect("vram=<size>" in text, text)


@test("upgrade", _BOTH)
def upgrade_replaces_the_module_and_the_sources():
    kernel = _kernel()
    _apt(f"install --no-install-recommends {_debs('/later')}")
    expect_equal(set(_packages().values()), {_LATER})
    status = run("dkms status -m turnstile").splitlines()
    expect_equal(status, [f"turnstile/{_LATER}, {kernel}, x86_64: installed"])
    expect(_module("turnstile", kernel), "no module")
    sources = sorted(path.name for path in pathlib.Path("/usr/src").glob("t*-*"))
    expect_equal(sources, [f"ts104-guest-{_LATER}", f"turnstile-{_LATER}"])


@test("remove", _BOTH)
def remove_takes_the_modules_and_leaves_the_settings():
    pathlib.Path("/etc/mdevctl.d").mkdir(exist_ok=True)
    names = " ".join(_packages())
    _apt(f"remove --autoremove {names}")
    expect_equal(_packages(), {})
    expect_equal(_module("turnstile", _kernel()), None)
    expect_equal(run("dkms status"), "")


@test("purge", _BOTH)
def purge_leaves_nothing_behind():
    text = run("dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n'")
    names = re.findall(r"^(\S*(?:turnstile|ts104)\S*) rc", text, re.M)
    if names:
        _apt("purge --autoremove " + " ".join(names))
    before = set(json.loads(_SNAPSHOT.read_text()))
    # The folder of vGPU definitions is mdevctl's and its operator's.
    left = sorted(_files() - before - {"/etc/mdevctl.d/"})
    expect_equal(left, [])
    gone = sorted(before - _files())
    expect_equal(gone, [])


if __name__ == "__main__":
    main()
