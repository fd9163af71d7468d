/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "ts104_kernel.h"
#include "ts104_programs.h"

TS_PROGRAM(struct ts104_wild_store_args)

TS_MAIN(const struct ts104_wild_store_args *args)
{
  if (ts_global_x() == 0)
    *(volatile uint32_t *)args->address = args->value;
}
