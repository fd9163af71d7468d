/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "ts104_kernel.h"
#include "ts104_programs.h"

TS_PROGRAM(struct ts104_saxpy_args)

TS_MAIN(const struct ts104_saxpy_args *args)
{
  const float *x = (const float *)args->x;
  float *y = (float *)args->y;
  const float alpha = args->alpha;
  const uint64_t count = args->count;
  const uint64_t step = ts_grid_threads_x();

  for (uint64_t i = ts_global_x(); i < count; i += step)
    y[i] = ts_fmaf(alpha, x[i], y[i]);
}
