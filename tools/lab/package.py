# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab package`: Debian packages of the clone, built and checked in a root of each release."""

import dataclasses
import pathlib
import re
import shutil
import subprocess

import build
import cache as cache_module
import package_box
import process
import setup
from errors import LabError
from progress import Progress

_DEBIAN = build.REPO / "packaging/debian"

# Of the same sources, so that an upgrade of Debian upgrades these as well.
_SUFFIX = {"13": "", "12": "~deb12"}


@dataclasses.dataclass(frozen=True)
class Packages:
    """What was built for a release."""

    release: package_box.Release
    version: str
    directory: pathlib.Path  # holds the .deb, .dsc and .changes

    def names(self):
        """The packages there are."""
        return sorted(path.name.split("_")[0] for path in self.directory.glob("*.deb"))

    def copy(self, target):
        """The same in another directory: the next build takes their place."""
        shutil.copytree(self.directory, target)
        return dataclasses.replace(self, directory=target)

    def file(self, name):
        """The .deb of a package."""
        (found,) = self.directory.glob(f"{name}_*.deb")
        return found


def run(numbers, target):
    """Builds packages for these releases and copies them to `target`; returns the exit status."""
    cache = cache_module.Cache()
    lab = setup.ensure(cache, packages=numbers)
    progress = Progress(120 * len(numbers))
    made = []
    try:
        for number in numbers:
            progress.step(f"packages for Debian {number}", 120)
            made.append(make(cache, lab, package_box.RELEASES[number]))
            progress.step_done()
    finally:
        progress.close()
    complaints = []
    for packages in made:
        folder = pathlib.Path(target) / f"debian-{packages.release.number}"
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(packages.directory.iterdir()):
            shutil.copy2(path, folder / path.name)
            if path.suffix == ".deb":
                print(folder / path.name)
        complaints += lint(lab, packages)
    for line in complaints:
        print(line)
    return 1 if complaints else 0


def version():
    """The project's version: meson.build's, which the changelog must have as well."""
    text = (build.REPO / "meson.build").read_text(encoding="utf-8")
    meson = re.search(r"^  version: '([^']+)'", text, re.M)[1]
    log = (_DEBIAN / "changelog").read_text(encoding="utf-8")
    logged = re.match(r"turnstile \(([^)]+)\)", log)[1]
    if meson != logged:
        raise LabError(f"meson.build has version {meson}, packaging/debian/changelog {logged}")
    return meson


def make(cache, lab, release, bump=""):
    """Builds source and binary packages for a release; returns Packages.

    `bump` is appended to the version: a later one for the tests of upgrades, of what the call before
    compiled. Raises LabError that shows the end of the log.
    """
    top = cache.top / f"debs-{release.number}"
    full = version() + bump + _SUFFIX[release.number]
    with cache.lock(f"debs-{release.number}"):
        source = top / "turnstile"
        if not bump:
            cache_module.remove_tree(source)
        for name in build.source_files():
            if name.startswith("packaging/debian/"):
                target = source / "debian" / name.removeprefix("packaging/debian/")
            else:
                target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(build.REPO / name, target)
        log = (source / "debian/changelog").read_text(encoding="utf-8")
        log = log.replace(f"({version()})", f"({full})", 1)
        (source / "debian/changelog").write_text(log, encoding="utf-8")
        # What the build before made, and its list of that.
        for path in [*top.glob("*.*"), *source.glob("debian/files")]:
            path.unlink()
        argv = ["eatmydata", "dpkg-buildpackage", "-us", "-uc"]
        argv += ["-b", "-nc"] if bump else []
        argv += [] if release.qemu else ["--build-profiles=pkg.turnstile.noqemu"]
        _in_box(cache, lab, release, argv, "/build/turnstile")
        output = top / "out"
        cache_module.remove_tree(output)
        output.mkdir()
        for path in top.glob("*.*"):
            path.rename(output / path.name)
    return Packages(release, full, output)


def lint(lab, packages):
    """lintian's errors and warnings about packages, as lines."""
    changes = next(packages.directory.glob("*.changes")).name
    command = ["lintian", "--tag-display-limit", "0", "--fail-on", "none", f"/build/{changes}"]
    box = lab.package_boxes[packages.release.number]
    result = subprocess.run(
        process.in_root(box, command, [(packages.directory, "/build")]),
        env=process.root_env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (result.stdout + result.stderr).splitlines()
    if result.returncode != 0:
        return [*lines, f"lintian ended with {result.returncode}"]
    return [line for line in lines if re.match(r"[EW]: ", line)]


def _in_box(cache, lab, release, argv, cwd):
    log = cache.top / "logs" / f"package-{release.number}.log"
    binds = [
        (cache.top / f"debs-{release.number}", "/build"),
        (lab.qemu / "include", "/opt/qemu-include"),
    ]
    with open(log, "wb") as stream:
        child = process.start(
            process.in_root(lab.package_boxes[release.number], argv, binds, cwd),
            env=process.root_env({"QEMU_INCLUDE": "/opt/qemu-include"}),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        status = child.wait()
        process.stop(child)
    if status != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise LabError(
            f"packages for Debian {release.number} do not build; the end of {log}:\n{tail}"
        )
