// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// TS_CHECK: stops on our own bugs. Never reachable from guest input: a guest mistake is a Status.
#pragma once

#include "base/runtime_abi.h"

// Reports and traps unless `condition` holds. Any context.
#define TS_CHECK(condition)                          \
  do {                                               \
    if (!(condition)) [[unlikely]] {                 \
      ts_report_bug(__FILE__, __LINE__, #condition); \
      __builtin_trap();                              \
    }                                                \
  } while (false)
