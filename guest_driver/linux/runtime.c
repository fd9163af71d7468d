// SPDX-License-Identifier: GPL-2.0-only
/* This module's copy of what the C++ core asks of the kernel. */
#include "ts_runtime.c"
