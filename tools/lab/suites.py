# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab test`: the suites, from style checks to guests that compute on their vGPUs.

  style   conventions, formatting, the committed contract equals its source, the lab's own scripts
  unit    one class at a time, GCC 12 with AddressSanitizer and UBSan
  rig     host-driver core, guest core and model in one process, the same build
  thread  model and rig with threads, under ThreadSanitizer, by clang with lock annotations
  module  the kernel modules for three kernels, and what is in them
  boot    L1 on both kernels: driver, types, capacity, errors, a GPU program through VFIO
  guest   L2 guests with vGPUs, a bare GPU and a passed-through one
  hostile storms, fault injection, fuzz replays; in L1 every storm beside a vGPU that computes
  nova-driver  Nova's libvirt driver on a full host with two GPUs, and the Placement it reports to
  sched   shares of three L2 guests that idle, reboot and are killed
  operate turnstile-smi: tables, JSON, metrics, settings, traces; then package
  libvirt a full host: libvirtd and mdevctl, domains with vGPUs, capacity, a reboot of the host
  nova    nova-driver; a small OpenStack, its servers on the vGPUs of a host with two GPUs, a reboot
  package Debian packages: lintian, Prometheus, install to purge on Debian 12 and 13, a host from them
  chaos   four L2 guests that are killed, reset, unplugged …, and who survives beside them
  debug   boot, two guests and libvirt on a kernel that watches itself; soak; allocations fail one by one
"""

import ast
import dataclasses
import json
import pathlib
import random
import re
import shlex
import time

import artifacts
import build
import cloud
import cloud_lab
import debug_kernel
import host
import package
import package_box
import package_suite
import results
import setup
from errors import LabError
from results import Result

ORDER = ("style", "unit", "rig", "thread", "module", "boot", "guest", "hostile", "nova-driver")
# Run when they are named.
NAMES = (*ORDER, "sched", "operate", "libvirt", "nova", "package", "chaos", "debug")

# Suites that others run as a part of themselves: not twice when both are named.
_PARTS = {"operate": ("package",), "nova": ("nova-driver",)}

_TESTS = build.REPO / "tests"

_ASAN = [*build.TEST_OPTIONS, "-Db_sanitize=address,undefined"]
_TSAN = [*build.TEST_OPTIONS, "-Db_sanitize=thread"]
_GCC12 = {"CC": "gcc-12", "CXX": "g++-12"}


@dataclasses.dataclass(frozen=True)
class Chaos:
    """How the suite chaos runs: for how long, with which seed (None: a new one), what to write."""

    minutes: float = 15
    seed: int | None = None
    json: str = ""


class Runner:
    """Runs suites one after another; prints each test as it ends."""

    def __init__(self, lab, cache, builder, only="", full_counts=False, chaos=None):
        """`only` and `full_counts` are for tests inside L1: a regular expression, and long runs.

        `chaos`: how the suite of that name runs, a Chaos.
        """
        self._lab = lab
        self._cache = cache
        self._builder = builder
        self._chaos_options = chaos or Chaos()
        self._options = f"--only {shlex.quote(only)}" if only else ""
        self._options += " --full-counts" if full_counts else ""
        self._names = ()
        self._results = []

    def run(self, names):
        """Runs the suites; returns the exit status and prints the totals last."""
        self._names = names
        functions = {
            "style": self._style,
            "unit": lambda: self._meson("asan", _ASAN, _GCC12, "unit"),
            "rig": lambda: self._meson("asan", _ASAN, _GCC12, "rig"),
            "thread": self._thread,
            "module": self._module,
            "boot": self._boot,
            "guest": lambda: self._in_l1("guest", "6.12", _TESTS / "guest/guest_test.py"),
            "hostile": self._hostile,
            "sched": lambda: self._in_l1("sched", "6.12", _TESTS / "sched/sched_test.py"),
            "operate": self._operate,
            "libvirt": self._libvirt,
            "nova-driver": lambda: results.print_table(self._nova_driver()),
            "nova": lambda: results.print_table(self._nova_driver() + self._nova_cloud()),
            "package": self._package,
            "chaos": self._chaos,
            "debug": self._debug,
        }
        parts = {part for name in names for part in _PARTS.get(name, ())}
        for name in NAMES:
            if name not in names or name in parts:
                continue
            print(f"== {name}", flush=True)
            try:
                functions[name]()
            except LabError as error:
                self._add(Result(name, "failed", 0, str(error)))
        count = {
            o: sum(r.outcome == o for r in self._results) for o in ("passed", "failed", "skipped")
        }
        for result in self._results:
            if result.outcome == "failed":
                print(f"failed: {result.name}")
        skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
        print(f"{count['passed']} passed, {count['failed']} failed{skipped}", flush=True)
        return 1 if count["failed"] else 0

    def _add(self, result):
        self._results.append(result)
        figure = f" [{result.figure}]" if result.figure else ""
        print(f"{result.outcome:7} {result.name} ({result.seconds:.1f} s){figure}", flush=True)
        if result.text and result.outcome != "passed":
            print("    " + result.text.strip().replace("\n", "\n    "), flush=True)

    # Suites without a VM.

    def _style(self):
        self._meson("asan", _ASAN, _GCC12, "style")
        for script in ("lab", ".ci/run", *sorted(_shell_scripts())):
            begin = time.monotonic()
            log = "shellcheck"
            (self._builder.top / f"{log}.log").unlink(missing_ok=True)
            status = self._builder.in_toolbox(["shellcheck", "-x", f"src/{script}"], log)
            text = (self._builder.top / f"{log}.log").read_text(errors="replace")
            outcome = "passed" if status == 0 else "failed"
            self._add(Result(f"style/shellcheck {script}", outcome, time.monotonic() - begin, text))

    def _hostile(self):
        if "rig" not in self._names:  # it has them all
            self._meson("asan", _ASAN, _GCC12, "hostile", ["rig"], _is_hostile)
        self._in_l1("hostile", "6.12", _TESTS / "hostile/hostile_test.py")

    def _thread(self):
        self._meson("tsan", _TSAN, build.CLANG, "thread", select=["rig", "unit"], match=_is_threaded)

    def _meson(self, name, options, env, suite, select=None, match=None):
        """Runs the tests of `suite` (or of the suites `select`) of the meson build `name`."""
        with self._builder.busy():
            inside = self._builder.configured(name, options, env)
            # A build that began as a copy of an older one may not know of new tests.
            self._builder.compile(name, ["build.ninja"])
            tests = self._builder.tests(inside, select or [suite])
            tests = [test for test in tests if match is None or match(test)]
            if not tests:
                raise LabError(f"{suite}: the project has no such tests")
            # A script has the program that it tests among its arguments; "/../" leads to sources.
            words = sorted({word for test in tests for word in test["cmd"] if "/../" not in word})
            targets = [word[len(inside) + 1 :] for word in words if word.startswith(f"{inside}/")]
            if targets:
                begin = time.monotonic()
                self._builder.compile(name, targets)
                self._add(Result(f"{suite}/compiles", "passed", time.monotonic() - begin))
            self._builder.run_tests(inside, tests, f"test-{suite}", build.SANITIZER_ENV)
            log = self._builder.top / "out" / name / "meson-logs/testlog.json"
            records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for record in records:
            self._add(results.meson_result(suite, record))

    def _module(self):
        kernels = self._lab.kernels()
        for folder, module, all_series in (
            ("mdev_driver", "turnstile", build.MODULE_SERIES),
            ("guest_driver", "ts104", build.GUEST_SERIES),
        ):
            begin = time.monotonic()
            part = "driver" if folder == "mdev_driver" else "guest"
            try:
                product = self._builder.parts([part])
            except LabError as error:
                self._add(
                    Result(
                        f"module/{module}.ko builds", "failed", time.monotonic() - begin, str(error)
                    )
                )
                continue
            for series in all_series:
                release = kernels[series]["release"]
                name = f"module/{module}.ko {series} ({release})"
                self._add(self._check_module(name, product, folder, module, series, release))
                if series != "newest":  # its headers are newer than Debian 13's sparse
                    self._add(self._sparse(folder, module, series, release))

    def _check_module(self, name, product, folder, module, series, release):
        begin = time.monotonic()
        path = product.module(module, series)
        inside = f"/turnstile/product/modules/{series}/{module}.ko"
        log = f"check-{module}-{series}"
        problems = []
        try:
            info = self._builder.must(["modinfo", inside], log)
            if not re.search(rf"^vermagic: +{re.escape(release)} ", info, re.M):
                problems.append(f"vermagic is not of {release}")
            if not re.search(r"^license: +GPL", info, re.M):
                problems.append("no GPL licence tag")
            config = f"/usr/src/linux-headers-{release}/include/config/auto.conf"
            self._builder.must(
                ["python3", "/turnstile/src/tools/check_ko.py", inside, "--config", config,
                 "--core-objects", f"/turnstile/out/ko-{series}/{folder}",
                 "--log", f"/turnstile/{folder}-{series}.log"],
                log,
            )  # fmt: skip
        except LabError as error:
            problems.append(str(error))
        if not path.exists():
            problems.append("not built")
        outcome = "failed" if problems else "passed"
        return Result(name, outcome, time.monotonic() - begin, "\n".join(problems))

    def _sparse(self, folder, module, series, release):
        """sparse over the C of a module that is built already: one line is too many."""
        begin = time.monotonic()
        problems = []
        try:
            text = self._builder.must(
                ["make", "-C", f"/lib/modules/{release}/build",
                 f"M=/turnstile/out/ko-{series}/{folder}", "C=2", "TURNSTILE_WERROR=1", "modules"],
                f"sparse-{module}-{series}",
            )  # fmt: skip
            if "CHECK" not in text:
                problems.append("sparse did not run")
            problems += [line for line in text.splitlines() if re.search(r": (warning|error): ", line)]
        except LabError as error:
            problems.append(str(error))
        outcome = "failed" if problems else "passed"
        name = f"module/sparse {module}.ko {series}"
        return Result(name, outcome, time.monotonic() - begin, "\n".join(problems))

    # Suites in L1.

    def _boot(self):
        self._device_errors()
        for kernel in ("6.1", "6.12"):
            self._in_l1("boot", kernel, _TESTS / "boot/boot_test.py")

    def _device_errors(self):
        """What QEMU answers to a TS104 that cannot be; no machine is started."""
        product = self._builder.parts(["plugin"])
        for properties, expected in _BAD_DEVICES:
            begin = time.monotonic()
            try:
                text = host.qemu_refusal(self._lab, product.plugin, f"ts104,{properties}")
                right = re.search(expected, text)
                problem = "" if right else f"expected {expected!r}, QEMU says:\n{text}"
            except LabError as error:
                problem = str(error)
            outcome = "failed" if problem else "passed"
            name = f"boot/QEMU refuses {properties}"
            self._add(Result(name, outcome, time.monotonic() - begin, problem))

    def _chaos(self):
        """Four guests and what is done to them, for some minutes."""
        options = self._chaos_options
        seed = random.randrange(1 << 31) if options.seed is None else options.seed
        print(f"chaos: --minutes {options.minutes:g} --seed {seed}", flush=True)
        outcome = self._in_l1(
            "chaos",
            "6.12",
            _TESTS / "chaos/chaos_test.py",
            timeout=60 * options.minutes + 1800,
            env=f"CHAOS_SEED={seed} CHAOS_MINUTES={options.minutes:g}",
        )
        report = re.search(r"^lab-chaos: (.*)$", outcome.out.decode(), re.M) if outcome else None
        if report:
            results.print_chaos(json.loads(report[1]))
            if options.json:
                pathlib.Path(options.json).write_text(report[1] + "\n", encoding="utf-8")

    def _nova_cloud(self):
        """OpenStack's services run here, its compute host is an L1 with two GPUs."""
        begin = time.monotonic()
        first = len(self._results)
        lab = setup.ensure(self._cache, nova=True, cloud=True)
        product = self._builder.parts(build.PARTS, ["6.12"])
        commands = [
            f"cd /lab/tests; python3 cloud_test.py --kernel 6.12 --group host --boot {boot} "
            f"{self._options}; true"
            for boot in (1, 2)
        ]
        log = "nova-compute.log"
        with (
            self._cache.run_directory() as directory,
            cloud.Cloud(lab, directory / "c") as services,
        ):
            image = cloud_lab.furnish(services, lab, product)
            request = cloud_lab.request(lab, services, product, commands[0])
            request.after_reboot = commands[1:]
            request.timeout = 2 * 3600
            request.get = {f"/var/log/nova/{log}": self._cache.top / "logs" / log}
            request.put |= {
                **{f"/lab/tests/{p.name}": p for p in (_TESTS / "nova").iterdir()},
                "/lab/tests/tap.py": _TESTS / "boot/tap.py",
                "/lab/tests/vfio.py": _TESTS / "boot/vfio.py",
                "/lab/tests/cloud.json": cloud_lab.settings(services, image),
            }
            outcome = host.run(lab, self._cache, request, stream=("err",))
        up = f"L1 up after {outcome.boot_s:.1f} s"
        name = "nova/6.12/cloud"
        self._add(Result(f"{name}/boots", "passed", time.monotonic() - begin, figure=up))
        self._report_l1(name, outcome, ends=len(commands))
        return self._results[first:]

    def _operate(self):
        self._in_l1("operate", "6.12", _TESTS / "operate/operate_test.py")
        self._package()

    def _package(self):
        """Builds packages of both releases first: the GPU is Debian 13's package for either's host."""
        lab = setup.ensure(self._cache, packages=list(package_box.RELEASES))
        made = {}
        with self._cache.run_directory() as directory:
            for number, release in package_box.RELEASES.items():
                made[number] = self._packages(lab, release, directory / number)
            plugin = package_suite.plugin(lab, made["13"][0], directory)
            for number, (packages, later) in made.items():
                self._package_host(lab, packages, later, plugin, directory / number)

    def _packages(self, lab, release, directory):
        """(Packages, Packages of a later version), built, checked and kept in `directory`."""
        name = f"package/{release.number}"
        begin = time.monotonic()
        packages = package.make(self._cache, lab, release).copy(directory / "now")
        names = ", ".join(packages.names())
        seconds = time.monotonic() - begin
        self._add(Result(f"{name}/builds", "passed", seconds, figure=names))
        begin = time.monotonic()
        complaints = "\n".join(package.lint(lab, packages))
        outcome = "failed" if complaints else "passed"
        seconds = time.monotonic() - begin
        self._add(Result(f"{name}/lintian is silent", outcome, seconds, complaints))
        self._report_records(f"{name}/box", package_suite.prometheus(lab, packages, directory))
        later = package.make(self._cache, lab, release, bump="+1").copy(directory / "later")
        return packages, later

    def _package_host(self, lab, packages, later, plugin, directory):
        name = f"package/{packages.release.number}"
        host_root = package_suite.Host(self._cache, lab, directory, packages, later)
        self._report_records(f"{name}/install", host_root.run("install"))
        commands = [
            f"cd /lab/tests; python3 host_test.py --kernel {packages.release.number} --group host "
            f"--boot {boot} {self._options}; true"
            for boot in (1, 2)
        ]
        outcome = host_root.boot(commands, plugin, stream=("err",))
        self._report_l1(f"{name}/host", outcome, ends=len(commands))
        for group in ("upgrade", "remove", "purge"):
            self._report_records(f"{name}/{group}", host_root.run(group))

    def _debug(self):
        """On the debug kernel, which is several times slower than another."""
        setup.ensure(self._cache, debug=True)
        self._libvirt(debug_kernel.NAME)  # first: it is the longest
        hours = 4 if "--full-counts" in self._options else 1
        for suite, script, only in (
            ("boot", "boot/boot_test.py", ""),
            ("debug", "debug/debug_test.py", ""),
            ("guest", "guest/guest_test.py", "two_guests|bare_gpu"),
        ):
            options = self._options
            if only and "--only" not in options:
                options += f" --only '{only}'"
            self._in_l1(
                suite, debug_kernel.NAME, _TESTS / script, timeout=hours * 3600, options=options
            )

    def _in_l1(self, suite, kernel, script, timeout=900, options="", env=""):
        """Runs the tests of `script` in L1, in one boot per group of the script's.

        `options` of the script, instead of the command line's. Returns the last boot's outcome, None
        if that did not end.
        """
        outcome = None
        for group in _groups(script):
            begin = time.monotonic()
            product = self._builder.parts(build.PARTS, [kernel])
            request = host.Request(
                command=f"{env} python3 /lab/tests/{script.name} --kernel {kernel} "
                f"--group {group.name} {options or self._options}",
                kernel=kernel,
                bare=group.bare,
                guests=suite not in ("boot", "debug", "hostile", "operate"),
                timeout=timeout,
                put={
                    **artifacts.files(self._lab, product, kernel),
                    **{f"/lab/tests/{p.name}": p for p in script.parent.glob("*.py")},
                    "/lab/tests/tap.py": _TESTS / "boot/tap.py",
                    "/lab/tests/vfio.py": _TESTS / "boot/vfio.py",
                    "/lab/tests/schema.py": _TESTS / "unit/smi/schema.py",
                },
                plugin=product.plugin,
                devices=artifacts.device(**group.device),
            )
            if group.no_device:
                request.devices = []
            name = f"{suite}/{kernel}/{group.name}"
            try:
                # Chaos tells there what it does: it is long.
                stream = ("err",) if suite == "chaos" else ()
                outcome = host.run(self._lab, self._cache, request, stream=stream)
            except LabError as error:
                self._add(Result(name, "failed", time.monotonic() - begin, str(error)))
                outcome = None
                continue
            self._report_l1(name, outcome)
        return outcome

    def _libvirt(self, kernel="6.12"):
        """All scripts of the suite in one L1 that reboots once: a boot is dear."""
        lab = setup.ensure(self._cache, full=True, debug=kernel == debug_kernel.NAME)
        product = self._builder.parts(build.PARTS, [kernel])
        self._builder.parts(["guest"], ["newest"])
        request = host.Request(
            command="",
            kernel=kernel,
            timeout=(4 if "--full-counts" in self._options else 1)
            * (3600 if kernel == "6.12" else 4 * 3600),
            put={
                **artifacts.newest_guest(lab, product),
                **{f"/lab/tests/{p.name}": p for p in (_TESTS / "libvirt").iterdir()},
                "/opt/turnstile/libvirt_xml": build.REPO / "libvirt_xml",
                "/opt/turnstile/dist": build.REPO / "mdev_driver/dist",
            },
            devices=artifacts.device(),
        )
        scripts = sorted((_TESTS / "libvirt").glob("*_test.py"))
        results.print_figures(self._in_full_l1("libvirt", scripts, lab, product, request))

    def _nova_driver(self):
        """What Nova does on a host with two GPUs, before and after a reboot of it."""
        lab = setup.ensure(self._cache, nova=True)
        product = self._builder.parts(build.PARTS, ["6.12"])
        request = host.Request(
            command="",
            nova=True,
            timeout=3600,
            put={
                **{f"/lab/tests/{p.name}": p for p in (_TESTS / "nova").iterdir()},
                "/lab/tests/virt.py": _TESTS / "libvirt/virt.py",
            },
            devices=artifacts.device() + artifacts.device(addr="0x11"),
        )
        scripts = [_TESTS / "nova/driver_test.py"]
        return self._in_full_l1("nova", scripts, lab, product, request)

    def _in_full_l1(self, suite, scripts, lab, product, request):
        """Runs the scripts of a suite in one full L1 that reboots once; returns their results."""
        begin = time.monotonic()
        kernel = request.kernel
        request.command, *request.after_reboot = [
            "cd /lab/tests; "
            + "; ".join(
                f"python3 {s.name} --kernel {kernel} --group host --boot {boot} {self._options}"
                for s in scripts
            )
            + "; true"
            for boot in (1, 2)
        ]
        request.full = True
        request.plugin = product.plugin
        request.put |= {
            **artifacts.files(lab, product, kernel, installed=True),
            "/lab/tests/tap.py": _TESTS / "boot/tap.py",
            "/lab/tests/vfio.py": _TESTS / "boot/vfio.py",
            "/opt/turnstile/docs": build.REPO / "docs",
        }
        name = f"{suite}/{kernel}/host"
        first = len(self._results)
        outcome = host.run(lab, self._cache, request, stream=("err",))
        up = f"L1 up after {outcome.boot_s:.1f} s"
        self._add(Result(f"{name}/boots", "passed", time.monotonic() - begin, figure=up))
        self._report_l1(name, outcome, ends=len(scripts) * (1 + len(request.after_reboot)))
        return self._results[first:]

    def _report_l1(self, name, outcome, ends=1):
        text = outcome.out.decode(errors="replace")
        rest = outcome.err.decode(errors="replace")
        self._report_records(name, text, rest, ends, outcome.wall_s)
        faults = "\n".join(outcome.kernel_faults)
        clean = "failed" if faults else "passed"
        self._add(Result(f"{name}/kernel log is clean", clean, outcome.wall_s, faults))

    def _report_records(self, name, text, rest="", ends=1, seconds=0.0):
        """Adds the results in the output `text` of test scripts, of which `ends` came to their end."""
        ended = 0
        for line in text.splitlines():
            record = results.parse_record(line)
            if record is None:
                continue
            if record.get("end"):
                ended += 1
                continue
            result = Result(f"{name}/{record['name']}", record["outcome"], record["seconds"])
            result.text = record["text"]
            result.figure = record.get("figure", "")
            self._add(result)
        if ended < ends:
            self._add(Result(f"{name}/script", "failed", seconds, (text + rest)[-3000:]))


# Properties of a TS104 and what must be in QEMU's message: the legal range, or the name.
_BAD_DEVICES = [
    ("vram=100M", r"64M to 16384M"),
    ("vram=32M", r"64M to 16384M"),
    ("vram=32G", r"64M to 16384M"),
    ("sms=0", r"sms.* 1 to 64"),
    ("engine-mhz=0", r"engine-mhz.* 1 to 10000"),
    ("colour=green", r"colour"),
]


def _is_hostile(test):
    """Of the rig, what is about guests that do their worst, and about a host that runs short."""
    return re.search(r"fuzz_|rig_(storms|hostile|bounded_work|injection|isolation)", test["name"])


def _is_threaded(test):
    """Tests in which more than one thread runs; their names say so."""
    return "thread" in test["name"]


def _shell_scripts():
    for path in (*(build.REPO / "tools/lab/l1").iterdir(), *(build.REPO / "mdev_driver/dist").iterdir()):
        if path.is_file() and path.read_bytes().startswith((b"#!/bin/sh", b"#!/bin/busybox sh")):
            yield str(path.relative_to(build.REPO))


@dataclasses.dataclass(frozen=True)
class Group:
    """Tests of a script that share one boot of L1."""

    name: str
    bare: bool = False
    no_device: bool = False
    device: dict = dataclasses.field(default_factory=dict)


def _groups(script):
    """The groups a test script declares in its GROUPS line, a Python literal."""
    match = re.search(
        r"^GROUPS = (\[.*?^\]|\[.*?\])$", script.read_text(encoding="utf-8"), re.S | re.M
    )
    if not match:
        raise LabError(f"{script} declares no GROUPS")
    return [Group(**entry) for entry in ast.literal_eval(match[1])]
