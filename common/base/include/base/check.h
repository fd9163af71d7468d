// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// TS_CHECK: stops on our own bugs. Never reachable from guest input: a guest mistake is a Status.
#pragma once

extern "C" {

// Reports a broken invariant (file, line and the text of the condition). Must return: the caller
// then executes a trap instruction. It is not declared noreturn, because objtool knows only the
// kernel's own list of functions that do not return.
//
// Any context, any lock may be held. Kernel: the module's C part prints it with WARN severity.
// User space: common/base/src/user_runtime.cc prints it on stderr.
void ts_report_bug(const char* file, int line, const char* expression);

}  // extern "C"

#define TS_CHECK(condition)                          \
  do {                                               \
    if (!(condition)) [[unlikely]] {                 \
      ts_report_bug(__FILE__, __LINE__, #condition); \
      __builtin_trap();                              \
    }                                                \
  } while (false)
