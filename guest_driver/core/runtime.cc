// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// This module's copy of the C++ runtime.

#include "kernel_runtime.cc"
