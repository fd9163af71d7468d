/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "ts104_kernel.h"
#include "ts104_programs.h"

TS_PROGRAM(struct ts104_trap_args)

TS_MAIN(const struct ts104_trap_args *args)
{
  if (ts_global_x() == 0)
    ts_trap(args->code);
}
