/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "ts104_kernel.h"
#include "ts104_programs.h"

TS_PROGRAM(struct ts104_endless_loop_args)

TS_MAIN(const struct ts104_endless_loop_args *args)
{
  uint32_t *counter = (uint32_t *)args->counter;

  for (;;)
    ts_atomic_add32(counter, 1);
}
