/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "ts104_kernel.h"
#include "ts104_programs.h"

TS_PROGRAM(struct ts104_vecadd_args)

TS_MAIN(const struct ts104_vecadd_args *args)
{
  const uint32_t *a = (const uint32_t *)args->a;
  const uint32_t *b = (const uint32_t *)args->b;
  uint32_t *c = (uint32_t *)args->c;
  const uint64_t count = args->count;
  const uint64_t step = ts_grid_threads_x();

  for (uint64_t i = ts_global_x(); i < count; i += step)
    c[i] = a[i] + b[i];
}
