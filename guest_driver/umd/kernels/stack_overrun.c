/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "ts104_kernel.h"
#include "ts104_programs.h"

TS_PROGRAM(struct ts104_stack_overrun_args)

/* Far deeper than any stack; the volatile object keeps each frame in memory. */
static __attribute__((noinline)) uint32_t recurse(uint32_t depth)
{
  volatile uint32_t frame = depth;

  if (depth == UINT32_MAX)
    return 0;
  return recurse(frame + 1) + frame;
}

TS_MAIN(const struct ts104_stack_overrun_args *args)
{
  (void)args;
  recurse(0);
}
