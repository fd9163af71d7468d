# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab build`: compiles Turnstile in the tool box, from a copy of the clone in the cache.

The copy's directory is named after a hash of the sources, so any clone with the same sources finds
it built. A new one starts as a copy of the latest build; only what changed is compiled again.
Inside the tool box every build is mounted at the same place: absolute paths do not differ.

  src/        the sources
  out/        build directories: meson/ plugin/ ko-SERIES/
  product/    modules/SERIES/*.ko  plugin/ts104.so  l2/initramfs
              tree/ (what goes to /opt/turnstile)  host/ (and to / of a host with systemd)
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import cache as cache_module
import debug_kernel
import initramfs
import kmod
import process
from errors import LabError

REPO = pathlib.Path(__file__).resolve().parents[2]

# What a build is made of, and so is keyed by; the copy holds everything else as well.
_COMPILED = re.compile(
    r"^(common|mdev_driver|guest_driver|qemu_device|libvirt_xml|tools/(exporter|kbuild|smi)|tests)/|^(tools/)?meson"
)
_NOT_COMPILED = re.compile(
    r"^tests/(boot|chaos|debug|guest|libvirt|nova|operate|package|sched|fuzz/corpus)/|^tests/.*_test\.py$|"
    r"\.md$|\.ya?ml$"
)

# ts104.ko needs DRM interfaces that 6.1 does not have.
MODULE_SERIES = ("6.1", "6.12", "newest")
# Kernels that an L1 with systemd runs.
HOST_SERIES = ("6.12", debug_kernel.NAME)
GUEST_SERIES = ("6.12", "newest")

PARTS = ("plugin", "driver", "guest", "programs")

# Of meson builds that several commands make or run.
RELEASE_OPTIONS = ["-Dbuildtype=release", "-Dtests=true", "-Dbenchmarks=enabled"]
TEST_OPTIONS = [
    "-Doptimization=1", "-Ddebug=true", "-Db_lundef=false", "-Dbenchmarks=disabled",
]  # fmt: skip
CLANG = {"CC": "clang", "CXX": "clang++"}
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


@dataclasses.dataclass(frozen=True)
class Product:
    """What a build produced; a part that was not asked for may be missing."""

    top: pathlib.Path

    def module(self, name, series):
        """A kernel module, without debug sections."""
        return self.top / "product/modules" / series / f"{name}.ko"

    @property
    def plugin(self):
        """The TS104 device for QEMU."""
        return self.top / "product/plugin/ts104.so"

    @property
    def tree(self):
        """The directory that becomes /opt/turnstile."""
        return self.top / "product/tree"

    def host(self, series):
        """What goes to / of a host with systemd: mdev_driver/dist and the installed module."""
        return self.top / "product/host" / series

    @property
    def guest_initramfs(self):
        """The initramfs of L2 guests."""
        return self.top / "product/l2/initramfs"


def source_files():
    """All files of the clone, relative to it: what git knows or would add."""
    command = ["git", "-c", "safe.directory=*", "-C", str(REPO), "ls-files", "-co"]
    listing = subprocess.run(
        [*command, "--exclude-standard", "-z"], capture_output=True, check=False
    )
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
    else:  # an unpacked archive, or no git
        names = [str(path.relative_to(REPO)) for path in REPO.rglob("*")]
    return sorted({name for name in names if name and (REPO / name).is_file()})


def _is_compiled(name):
    return bool(_COMPILED.search(name)) and not _NOT_COMPILED.search(name)


class Builder:
    """Builds parts of the project in one directory of the cache. Use opened()."""

    def __init__(self, lab, cache, top, names):
        self._lab = lab
        self._cache = cache
        self._top = top
        self._names = names

    @property
    def top(self):
        """The build's directory."""
        return self._top

    def parts(self, parts, series=MODULE_SERIES):
        """Builds `parts` (of PARTS), modules for the kernels `series`; returns the Product.

        Guests always run 6.12, so ts104.ko is built for it whatever `series` says.
        """
        tasks = {}
        if "programs" in parts:
            tasks["programs"] = ("meson.build", self._programs)
        if "guest" in parts:
            wanted = {*series, "6.12"}.intersection((*GUEST_SERIES, debug_kernel.NAME))
            tasks |= self._module_tasks("guest_driver", wanted)
        if "driver" in parts:
            tasks |= self._module_tasks("mdev_driver", series)
        if "plugin" in parts:
            tasks["plugin"] = ("qemu_device/qemu/Makefile", self._plugin)
        done = self._top / "done"
        with self.busy():
            done.mkdir(exist_ok=True)
            for name, (needed, task) in tasks.items():
                if (done / name).exists():
                    continue
                if needed not in self._names:
                    raise LabError(f"cannot build {name}: {needed} is not in this clone")
                begin = time.monotonic()
                task()
                (done / name).touch()
                seconds = time.monotonic() - begin
                print(f"lab: built {name} ({seconds:.0f} s)", file=sys.stderr, flush=True)
            if (done / "guest_driver-6.12").exists() and (done / "programs").exists():
                self._guest_initramfs()
            if "driver" in parts and (done / "programs").exists():
                for kernel in {*series}.intersection(HOST_SERIES):
                    self._host(kernel)
        return Product(self._top)

    def _module_tasks(self, folder, all_series):
        tasks = {}
        for series in all_series:
            name = f"{folder}-{series}"
            if series == debug_kernel.NAME:  # its options may change, and its release stay
                name = f"{folder}-{self._lab.debug_kernel.name}"
            tasks[name] = (f"{folder}/Kbuild", functools.partial(self._module, folder, series))
        return tasks

    @contextlib.contextmanager
    def busy(self):
        """Keeps other labs with the same sources from building in this directory meanwhile."""
        with self._cache.lock(self._top.name):
            yield

    def in_toolbox(self, argv, log, cwd="/turnstile", env=None, stdout=None, binds=()):
        """Runs a command in the tool box with this build at /turnstile; returns its status.

        Output goes to the log file `log`, or to `stdout` when given. `binds`: further directories,
        pairs (outside, inside).
        """
        command = process.in_root(
            self._lab.toolbox,
            ["nice", *argv],
            [
                (self._top, "/turnstile"),
                (self._lab.qemu / "include", "/opt/qemu-include"),
                *self._debug_headers(),
                *binds,
            ],
            cwd,
        )
        with open(self._top / f"{log}.log", "ab") as stream:
            child = process.start(
                command,
                env=process.root_env(env),
                stdin=subprocess.DEVNULL,
                stdout=stdout or stream,
                stderr=subprocess.STDOUT,
            )
            status = child.wait()
            process.stop(child)
        return status

    def _debug_headers(self):
        headers = self._lab.debug_kernel / "headers"
        return [(headers, debug_kernel.HEADERS)] if headers.exists() else []

    def must(self, argv, log, cwd="/turnstile", env=None):
        """Like in_toolbox, but a failure is a LabError that shows the compiler's messages."""
        path = self._top / f"{log}.log"
        path.unlink(missing_ok=True)
        status = self.in_toolbox(argv, log, cwd, env)
        if status != 0:
            kept = self._cache.top / "logs" / f"build-{log}.log"
            shutil.copyfile(path, kept)
            raise LabError(f"{log} does not build:\n{_essence(path)}\nThe whole log: {kept}")
        return path.read_text(errors="replace")

    def configured(self, name, options, env=None):
        """Sets up the meson build `name`, anew when `options` or `env` changed; returns its path."""
        inside = f"/turnstile/out/{name}"
        made = self._top / "out" / f"{name}.options"
        wanted = repr((options, env))
        current = made.read_text(encoding="utf-8") if made.exists() else ""
        if current != wanted:
            shutil.rmtree(self._top / "out" / name, ignore_errors=True)
            self.must(["meson", "setup", inside, "/turnstile/src", *options], name, env=env)
            made.write_text(wanted, encoding="utf-8")
        return inside

    def compile(self, name, targets=()):
        """Compiles `targets` (paths in the build directory; all when empty) of the build `name`."""
        self.must(["ninja", "-C", f"/turnstile/out/{name}", *targets], name)

    def meson(self, name, options, env=None):
        """Sets up and compiles all of the meson build `name`; returns its path in the tool box."""
        inside = self.configured(name, options, env)
        self.compile(name)
        return inside

    def tests(self, inside, suites):
        """meson's records of the tests of `suites` in the build at `inside`."""
        text = self.must(["meson", "introspect", inside, "--tests"], "list")
        return [
            test
            for test in json.loads(text[text.index("[") :])
            if any(suite.split(":")[-1] in suites for suite in test["suite"])
        ]

    def run_tests(self, inside, tests, log, env):
        """Runs `tests`, which are compiled, with five times their time; returns the exit status."""
        argv = ["meson", "test", "-C", inside, "--no-rebuild", "-t", "5"]
        return self.in_toolbox([*argv, *(test["name"] for test in tests)], log, env=env)

    def driver_variant(self, name, flags, series="6.12"):
        """Builds turnstile.ko with these compiler's `flags`; returns it, without debug sections.

        For comparisons: it is not part of the product and nothing installs it.
        """
        with self.busy():
            variable = f"KCFLAGS={flags}"  # Kbuild's own; cxx.mk takes it over for C++
            (module,) = self._kbuild("mdev_driver", series, f"{series}-{name}", variable)
            target = self._top / "out" / f"turnstile-{name}.ko"
            self._stripped(module, target)
        return target

    # The parts.

    def _programs(self):
        inside = self.meson("meson", _PRODUCT_OPTIONS)
        tree = self._top / "out/install"
        cache_module.remove_tree(tree)
        self.must(
            [
                "meson",
                "install",
                "-C",
                inside,
                "--no-rebuild",
                "--tags",
                "runtime,host",
                "--destdir",
                "/turnstile/out/install",
            ],
            "programs",
        )
        target = self._top / "product/tree"
        cache_module.remove_tree(target)
        installed = tree / "opt/turnstile"
        if installed.is_dir():
            shutil.copytree(installed, target, symlinks=True)
        else:
            target.mkdir(parents=True)

    def _plugin(self):
        self.meson("meson", _PRODUCT_OPTIONS)
        libraries = " ".join(self._model_libraries())
        out = "/turnstile/out/plugin"
        (self._top / "out/plugin").mkdir(parents=True, exist_ok=True)
        self.must(
            ["make", "-C", "/turnstile/src/qemu_device/qemu", f"-j{os.cpu_count()}",
             "QEMU_INCLUDE=/opt/qemu-include", f"MODEL_LIB={libraries}", f"OUT={out}"],
            "plugin",
        )  # fmt: skip
        self._check_plugin()
        target = self._top / "product/plugin"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self._top / "out/plugin/ts104.so", target / "ts104.so")

    def _check_plugin(self):
        """The plugin may leave open only what QEMU has; ours would be missed not before it runs."""
        command = ["nm", "-D", "--undefined-only", "/turnstile/out/plugin/ts104.so"]
        text = self.must(command, "plugin-symbols")
        missing = re.findall(r" U (ts104_\w+)", text)
        if missing:
            raise LabError("the plugin lacks functions of the model: " + ", ".join(missing))

    def _model_libraries(self):
        """The model's archives inside the tool box, twice, since they may need each other."""
        top = self._top / "out/meson"
        found = sorted([*(top / "qemu_device").rglob("*.a"), *(top / "common").rglob("*.a")])
        if not found:
            raise LabError("meson built no library of the model: qemu_device/meson.build has none")
        return [f"/turnstile/out/meson/{path.relative_to(top)}" for path in found] * 2

    def _module(self, folder, series):
        """Builds the module in `folder` for one kernel."""
        modules = self._kbuild(folder, series, series)
        cache_module.remove_tree(Product(self._top).host(series))  # holds the module of before
        target = self._top / "product/modules" / series
        target.mkdir(parents=True, exist_ok=True)
        for module in modules:
            self._stripped(module, target / module.name)

    def _kbuild(self, folder, series, name, *variables):
        """Runs Kbuild on `folder` with these make `variables` besides; returns the .ko files."""
        # Kbuild writes beside the sources, so each kernel gets a copy of its own: `name`.
        tree = self._top / "out" / f"ko-{name}"
        wanted = [n for n in self._names if n.split("/")[0] in ("common", "tools", folder)]
        _sync(self._top / "src", tree, wanted, prune=("common", "tools", folder))
        inside = f"/turnstile/out/ko-{name}/{folder}"
        log = f"{folder}-{name}"
        text = self.must(
            ["make", "-C", self._lab.headers(series), f"M={inside}", f"-j{os.cpu_count()}",
             "TURNSTILE_WERROR=1", *variables, "modules"],
            log,
        )  # fmt: skip
        complaints = [
            line for line in text.splitlines() if re.search(r"objtool:|WARNING: modpost", line)
        ]
        if complaints:
            raise LabError(f"{log}: objtool or modpost complain:\n" + "\n".join(complaints))
        return list((tree / folder).glob("*.ko"))

    def _stripped(self, module, target):
        """Copies `module` to `target`, both in this build, without its debug sections."""
        shutil.copy2(module, target)
        inside = f"/turnstile/{target.relative_to(self._top)}"
        self.must(["strip", "--strip-debug", inside], f"strip-{module.stem}")

    def _host(self, series):
        """As `meson install`, `make modules_install` and `systemctl enable` would leave it."""
        product = Product(self._top)
        host = product.host(series)
        if host.is_dir():
            return
        partial = host.with_name(f"{series}.partial")
        cache_module.remove_tree(partial)
        shutil.copytree(self._top / "out/install/usr", partial / "usr")
        wants = partial / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(parents=True)
        (wants / _AUTOSTART).symlink_to(f"/usr/lib/systemd/system/{_AUTOSTART}")
        # depmod of all modules takes minutes in an L1 without KVM. The debug kernel has none.
        modules = self._lab.modules_dir(series)
        target = partial / "usr/lib/modules" / modules.name
        (target / "updates").mkdir(parents=True)
        shutil.copy2(product.module("turnstile", series), target / "updates/turnstile.ko")
        if modules.is_relative_to(self._lab.toolbox):
            inside = f"/{modules.relative_to(self._lab.toolbox)}"
            (target / "kernel").symlink_to(f"{inside}/kernel")
        for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            shutil.copy2(modules / name, target / name)
        base = f"/turnstile/{partial.relative_to(self._top)}/usr"
        self.must(["depmod", "-b", base, modules.name], "depmod")
        (target / "kernel").unlink(missing_ok=True)
        partial.rename(host)

    def _guest_initramfs(self):
        product = Product(self._top)
        target = product.guest_initramfs
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        module = product.module("ts104", "6.12")
        data = initramfs.for_l2(
            self._lab, "6.12", kmod.depends_of(module), {"modules/ts104.ko": module}, product.tree
        )
        target.write_bytes(data)


_AUTOSTART = "turnstile-autostart.service"

_PRODUCT_OPTIONS = [
    "--prefix=/opt/turnstile", "--libdir=lib", "-Dbuildtype=release", "-Dtests=false",
    "-Dbenchmarks=disabled",
]  # fmt: skip


@contextlib.contextmanager
def opened(lab, cache):
    """Gives a Builder for the clone as it is now; its build is not removed meanwhile."""
    names = source_files()
    key = cache_module.digest(
        [part for name in names if _is_compiled(name) for part in (name, REPO / name)]
        + [str(lab.toolbox), str(lab.qemu), *_PRODUCT_OPTIONS]
    )
    top = cache.path("build", key)
    with cache.lock("build"):
        if not top.is_dir():
            _seed(cache, top)
            shutil.rmtree(top / "done", ignore_errors=True)
            (top / "product/l2/initramfs").unlink(missing_ok=True)
            cache_module.remove_tree(top / "product/host")
        with cache.lock(top.name):
            _sync(REPO, top / "src", names, prune=("",))
        os.utime(top)
        # Closed when the caller is done, which gives the shared lock back.
        in_use = open(top / "in-use", "w", encoding="utf-8")
        fcntl.flock(in_use, fcntl.LOCK_SH)
        _discard_old(cache, top)
    with in_use:
        yield Builder(lab, cache, top, names)


def _seed(cache, top):
    """Starts `top` as a copy of the latest build that nobody is working on, if there is one."""
    partial = top.with_name(top.name + ".partial")
    cache_module.remove_tree(partial)
    for older in _builds(cache):
        with cache.try_lock(older.name) as held:
            if not held:
                continue
            subprocess.run(["cp", "-a", "--reflink=auto", str(older), str(partial)], check=True)
            break
    else:
        for name in ("src", "out", "product"):
            (partial / name).mkdir(parents=True)
    partial.rename(top)


def _builds(cache):
    """All builds, the one used last first."""
    found = [p for p in cache.top.glob("build-*") if p.suffix != ".partial" and p.is_dir()]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _discard_old(cache, keep, count=4):
    """Keeps the latest builds; one in use by another lab stays whatever its age."""
    builds = [path for path in _builds(cache) if path != keep]
    for path in builds[count - 1 :]:
        try:
            with open(path / "in-use", "w", encoding="utf-8") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                cache_module.remove_tree(path)
        except (BlockingIOError, FileNotFoundError):
            pass


def _sync(source, target, names, prune):
    """Makes `target` hold exactly `names`, leaving equal files' times alone.

    Files below the folders `prune` that are not in `names` go, except what Kbuild made there.
    """
    wanted = set(names)
    for name in names:
        from_path, to_path = source / name, target / name
        data = from_path.read_bytes()
        if to_path.is_file() and to_path.read_bytes() == data:
            continue
        to_path.parent.mkdir(parents=True, exist_ok=True)
        to_path.write_bytes(data)
        to_path.chmod(from_path.stat().st_mode & 0o777)
    made = re.compile(r"\.(o|ko|mod|cmd|order|symvers|d)$|\.mod\.c$|/\.")
    for folder in prune:
        top = target / folder
        for path in top.rglob("*") if top.is_dir() else []:
            name = str(path.relative_to(target))
            if path.is_file() and name not in wanted and not made.search("/" + name):
                path.unlink()


def _essence(log, lines=30):
    """The errors of a compiler's log, or its end."""
    text = log.read_text(errors="replace").splitlines()
    errors = [
        i for i, line in enumerate(text) if re.search(r"\berror\b|undefined|\bERROR\b|FAILED", line)
    ]
    begin = max(errors[0] - 1, 0) if errors else max(len(text) - lines, 0)
    return "  " + "\n  ".join(text[begin : begin + lines])
