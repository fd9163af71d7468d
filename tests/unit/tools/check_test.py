# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests of tools/check_*.py on small trees and objects made for the purpose."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "tools"
sys.path.insert(0, str(TOOLS))

import check_includes  # noqa: E402
import check_ko  # noqa: E402
import check_messages  # noqa: E402
import check_style  # noqa: E402

SPDX = "// SPDX-License-Identifier: GPL-2.0-only OR MIT\n"


class TreeTest(unittest.TestCase):
    """A temporary tree outside git: the checks then look at all files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class IncludesTest(TreeTest):
    def test_freestanding_headers_are_allowed_in_core(self):
        self.write("mdev_driver/core/a.cc", "#include <span>\n#include \"base/result.h\"\n")
        self.assertEqual(check_includes.check(self.root), [])

    def test_hosted_header_in_core_is_reported_with_its_place(self):
        self.write("mdev_driver/core/a.cc", SPDX + "#include <vector>\n")
        self.assertEqual(check_includes.check(self.root), [
            "mdev_driver/core/a.cc:2: includes vector: "
            "not in the freestanding part of the standard library"])

    def test_kernel_header_in_common_is_reported(self):
        self.write("common/base/x.h", "#  include <linux/types.h>\n")
        self.assertEqual(len(check_includes.check(self.root)), 1)

    def test_quoted_kernel_header_is_reported(self):
        self.write("guest_driver/core/x.h", '#include "linux/mutex.h"\n')
        self.assertEqual(len(check_includes.check(self.root)), 1)

    def test_abi_header_may_choose_types_for_c(self):
        self.write("mdev_driver/core/core_abi.h", "#include <linux/types.h>\n#include <stdint.h>\n")
        self.assertEqual(check_includes.check(self.root), [])

    def test_abi_header_gets_no_other_kernel_header(self):
        self.write("mdev_driver/core/core_abi.h", "#include <linux/mutex.h>\n")
        self.assertEqual(len(check_includes.check(self.root)), 1)

    def test_model_may_use_the_whole_standard_library_but_not_qemu(self):
        self.write("qemu_device/core/a.cc", "#include <thread>\n#include <vector>\n")
        self.assertEqual(check_includes.check(self.root), [])
        self.write("qemu_device/core/b.cc", '#include "qemu/osdep.h"\n')
        self.assertEqual(len(check_includes.check(self.root)), 1)

    def test_c_of_an_os_is_not_looked_at(self):
        self.write("common/base/linux/x.c", "#include <linux/slab.h>\n")
        self.write("mdev_driver/linux/x.h", "#include <linux/slab.h>\n")
        self.assertEqual(check_includes.check(self.root), [])


class MessagesTest(TreeTest):
    def setUp(self):
        super().setUp()
        for folder in ("linux", "core", "dist"):
            (self.root / "mdev_driver" / folder).mkdir(parents=True)

    def errors(self, name, text, guide):
        self.write("docs/troubleshooting.md", guide)
        self.write(name, text)
        return check_messages.check(self.root)

    def test_kernel_message_with_numbers_is_found(self):
        text = 'dev_err(dev, "no room: %llu of "\n\t"%u free\\n", a, b);\n'
        self.assertEqual(
            self.errors("mdev_driver/linux/a.c", text, "| `no room: … of … free` | wait |\n"), [])

    def test_kernel_message_that_is_not_there_is_reported_with_its_place(self):
        text = '\npr_warn(NAME ": limit %d\\n", a);\n'
        self.assertEqual(self.errors("mdev_driver/linux/a.c", text, "| `limits` |\nlimi\n"), [])
        self.assertEqual(self.errors("mdev_driver/linux/a.c", text, "lim it\n"), [
            "mdev_driver/linux/a.c:2: docs/troubleshooting.md does not have ': limit …'"])

    def test_information_needs_no_line(self):
        self.assertEqual(self.errors("mdev_driver/linux/a.c", 'dev_info(dev, "hello\\n");\n', ""), [])

    def test_line_of_the_core_is_found_in_one_line_only(self):
        text = 'LogLine(gpu, vgpu, kBad)\n    << "channel " << Hex{a} << " is " << b << "; gone";\n'
        self.assertEqual(self.errors("mdev_driver/core/a.cc", text, "`channel … is …; gone`\n"), [])
        self.assertEqual(len(self.errors("mdev_driver/core/a.cc", text, "channel\nis gone\n")), 1)

    def test_scripts_complaint_is_looked_for_but_not_its_output(self):
        text = 'echo "started $uuid"\necho "vGPU $uuid of ${1#a} fails" >&2\n'
        self.assertEqual(len(self.errors("mdev_driver/dist/turnstile-x", text, "")), 1)
        self.assertEqual(self.errors("mdev_driver/dist/turnstile-x", text, "vGPU … of … fails\n"), [])


class StyleTest(TreeTest):
    def errors(self, name, text):
        self.write(name, text)
        errors, _ = check_style.check(self.root)
        return errors

    def test_clean_file(self):
        self.assertEqual(self.errors("common/a.h", SPDX + "#pragma once\n"), [])

    def test_missing_licence(self):
        self.assertEqual(self.errors("common/a.cc", "int x;\n"),
                         ["common/a.cc:1: no SPDX-License-Identifier in the first line"])

    def test_licence_of_the_folder(self):
        self.assertEqual(len(self.errors("mdev_driver/linux/a.c", SPDX)), 1)
        self.write("mdev_driver/linux/a.c", "// SPDX-License-Identifier: GPL-2.0-only\n")
        self.assertEqual(self.errors("qemu_device/qemu/b.c",
                                     "/* SPDX-License-Identifier: GPL-2.0-or-later */\n"), [])

    def test_licence_may_follow_the_interpreter_line(self):
        self.assertEqual(self.errors("tools/a.py", "#!/usr/bin/env python3\n" + SPDX.replace("//", "#")), [])

    def test_white_space(self):
        self.assertEqual(len(self.errors("common/a.cc", SPDX + "int x; \n")), 1)
        self.assertEqual(len(self.errors("common/a.cc", SPDX + "\tint x;\n")), 1)
        self.assertEqual(len(self.errors("common/a.cc", SPDX + "int x;")), 1)

    def test_line_of_101_columns(self):
        self.assertEqual(self.errors("common/a.cc", SPDX + "x" * 100 + "\n"), [])
        self.assertEqual(len(self.errors("common/a.cc", SPDX + "x" * 101 + "\n")), 1)

    def test_unfinished_work(self):
        self.assertEqual(len(self.errors("common/a.cc", SPDX + "// TO" + "DO: later\n")), 1)

    def test_header_without_guard(self):
        self.assertEqual(len(self.errors("common/a.h", SPDX + "int x;\n")), 1)

    def test_words_that_no_core_may_use(self):
        self.assertEqual(len(self.errors("guest_driver/core/a.cc", SPDX + "throw 1;\n")), 1)
        self.assertEqual(self.errors("guest_driver/core/a.cc", SPDX + "// may throw\n"), [])
        self.assertEqual(self.errors("qemu_device/core/b.cc", SPDX + "throw 1;\n"), [])

    def test_long_file_is_a_warning(self):
        self.write("common/a.cc", SPDX + "int x;\n" * 600)
        errors, warnings = check_style.check(self.root)
        self.assertEqual(errors, [])
        self.assertEqual(warnings, ["common/a.cc: 601 lines, more than 600 need a reason"])


class KoTest(TreeTest):
    """Objects stand in for modules: what is checked is there before the link already."""

    def compile(self, code, *flags, name="a.cc.o"):
        source = self.root / (name + ".cc")
        source.write_text(code)
        target = self.root / name
        subprocess.run(["c++", "-std=c++20", "-O1", "-fno-asynchronous-unwind-tables", "-fno-pic",
                        "-fno-exceptions", *flags, "-c", "-o", target, source], check=True)
        return check_ko.Object(target)

    def test_plain_object_is_fine(self):
        module = self.compile('extern "C" int f(int x) { return x + 1; }')
        self.assertEqual(check_ko.check_module(module, set()), [])

    def test_global_constructor(self):
        module = self.compile('extern "C" int g(); int x = g();')
        self.assertEqual(check_ko.check_module(module, set()), [
            "section .init_array: global constructors, which the kernel does not run"])

    def test_unwind_tables(self):
        module = self.compile('extern "C" int f(int x) { return x; }', "-fasynchronous-unwind-tables")
        self.assertIn("section .eh_frame: unwind tables of the C++ runtime",
                      check_ko.check_module(module, set()))

    def test_throwing_new(self):
        module = self.compile("int* f() { return new int; }")
        self.assertEqual(check_ko.check_module(module, set()), ["needs _Znwm of the C++ runtime"])

    def test_section_groups(self):
        module = self.compile("inline int f() { static int x; return ++x; } int g() { return f(); }", "-O0")
        self.assertIn("section groups are left: --force-group-allocation missing",
                      check_ko.check_module(module, set()))

    def test_missing_objtool_section(self):
        module = self.compile('extern "C" int f(int x) { return x + 1; }')
        self.assertEqual(check_ko.check_module(module, {"CONFIG_UNWINDER_ORC"}), [
            "no section .orc_unwind, which this kernel needs: objtool did not run"])

    def test_core_may_call_doors_and_other_core_objects(self):
        a = self.compile("extern \"C\" void ts_host_log(); void b(); void a() { ts_host_log(); b(); }")
        b = self.compile("void b() {}", name="b.cc.o")
        self.assertEqual(check_ko.check_core([a, b]), [])

    def test_core_may_not_call_the_kernel(self):
        a = self.compile('extern "C" int _printk(const char*, ...); void a() { _printk("x"); }')
        self.assertEqual(check_ko.check_core([a]),
                         [f"{a.path}: needs _printk, past the host interface"])

    def test_config(self):
        self.write("auto.conf", "CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_D=5\n")
        self.assertEqual(check_ko.read_config(self.root / "auto.conf"), {"CONFIG_A", "CONFIG_B"})

    def test_objtool_lines_are_found(self):
        self.assertTrue(check_ko.OBJTOOL_LINE.search("a.o: warning: objtool: f() falls through"))
        self.assertFalse(check_ko.OBJTOOL_LINE.search("  ./tools/objtool/objtool --orc a.o"))


if __name__ == "__main__":
    unittest.main()
