# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# C++ objects in a kernel module. A module's Kbuild includes this file first:
#
#   include $(src)/../tools/kbuild/cxx.mk
#   obj-m := turnstile.o
#   turnstile-y := linux/module.o core/runtime.cc.o core/scheduler.cc.o
#
# core/x.cc becomes core/x.cc.o, so a C file of the same name is no collision.
#
# The flags are the kernel's own, less what only the C front end understands: a private list would
# miss the mitigations of some kernel (thunks, ENDBR, call padding), which then fails at boot or at
# load. Why each flag: docs/kernel_cxx.md.
#
# _c_flags, modkern_cflags, cmd_objtool and if_changed_dep are internals of Kbuild (scripts/
# Makefile.lib, scripts/Kbuild.include). Built against 6.1, 6.12 and the newest; a kernel that
# renames one of them is told apart by the checks below instead of producing a wrong object.

# The root of the project. Up to 6.12 make runs in the kernel's build folder and $(src) is M; from
# 6.13 on it runs in the module's folder.
ts_root := $(abspath $(src)/..)

# For C and C++ alike (_c_flags takes ccflags-y in).
ccflags-y += -I$(ts_root) -I$(ts_root)/common/base/include
ccflags-y += -I$(ts_root)/common/base/linux
ccflags-y += -I$(ts_root)/common/base/src -I$(ts_root)/common/hwreg/include
ccflags-y += -I$(ts_root)/common/ts104/include -I$(abspath $(src))
# TURNSTILE_WERROR=1: warnings are errors, in our files. For CI; not for a user's newer compiler.
ifdef TURNSTILE_WERROR
ccflags-y += -Werror
endif

# Kbuild runs make without built-in variables: the C++ compiler is the kernel's C compiler's sister.
ifeq ($(origin CXX),undefined)
CXX := $(subst gcc,g++,$(subst clang,clang++,$(CC)))
endif

# No -g: pahole cannot encode C++ types, and a .ko whose BTF fails is deleted by Kbuild.
# Plugins are C only.
cxx_drop := -std=% -g -g0 -g1 -g2 -g3 -gdwarf% -gz% -fplugin=% -fplugin-arg-%

# What g++ itself calls a C-only option, in either of its two wordings. Asked once per make.
cxx_c_only = $(eval cxx_c_only := $$(shell echo | LC_ALL=C $$(CXX) $$(filter-out $$(cxx_drop), \
	$$(KBUILD_CFLAGS) $$(KBUILD_CFLAGS_MODULE)) -Wno-error -x c++ -fsyntax-only - 2>&1 | sed -n \
	-e "s/.*command-line option '\(.*\)' is valid for C.* but not for C++.*/\1/p" \
	-e "s/.*'-Werror=' argument '\(.*\)' is not valid for C++.*/\1/p"))$(cxx_c_only)

# -ffreestanding also means: no call is turned into a library function the kernel lacks.
cxx_lang := -std=c++20 -ffreestanding -fno-exceptions -fno-rtti -fno-threadsafe-statics
cxx_lang += -fno-sized-deallocation -fcheck-new -fno-gnu-unique
cxx_lang += -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion

# Expands to the kernel's flags for this object, or stops.
cxx_kernel_flags = $(if $(and $(strip $(_c_flags)),$(strip $(modkern_cflags))),,$(error \
	this kernel's Kbuild has no _c_flags or modkern_cflags: C++ cannot be built for it))$(if \
	$(CONFIG_OBJTOOL),$(if $(filter undefined,$(origin cmd_objtool)),$(error \
	this kernel's Kbuild has no cmd_objtool: C++ cannot be built for it)))$(filter-out \
	$(cxx_drop) $(cxx_c_only),$(_c_flags) $(modkern_cflags))

# Inline functions and templates come in COMDAT groups, of which the linker would keep one copy and
# drop the others, but not the others' entries in __mcount_loc and the like, which it then refuses.
# Dissolved object by object there is nothing to drop: the copies stay, as weak symbols. (Inline
# variables are "unique" symbols unless told otherwise, and those clash.)
quiet_cmd_cxx_o_cc = CXX $(quiet_modtag)  $@
      cmd_cxx_o_cc = $(CXX) -Wp,-MMD,$(depfile) $(cxx_kernel_flags) $(cxx_lang) -c -o $@.comdat $<; \
		     $(LD) $(KBUILD_LDFLAGS) -r --force-group-allocation -o $@ $@.comdat; \
		     rm -f $@.comdat $(cmd_objtool)

$(obj)/%.cc.o: $(src)/%.cc FORCE
	$(call if_changed_dep,cxx_o_cc)
