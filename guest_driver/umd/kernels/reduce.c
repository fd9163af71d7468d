/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Sum: each thread its share, a tree in shared memory, one atomic per CTA. */
#include "ts104_kernel.h"
#include "ts104_programs.h"

struct partial_sums {
  uint64_t of_thread[TS104_REDUCE_CTA];
};

TS_PROGRAM(struct ts104_reduce_args, .shared_bytes = sizeof(struct partial_sums), .barriers = 1)

TS_MAIN(const struct ts104_reduce_args *args)
{
  TS_SHARED(struct partial_sums, sums);
  const uint32_t *data = (const uint32_t *)args->data;
  const uint64_t count = args->count;
  const uint64_t step = ts_grid_threads_x();
  const uint32_t self = ts_tid_x();
  uint64_t sum = 0;

  for (uint64_t i = ts_global_x(); i < count; i += step)
    sum += data[i];
  sums->of_thread[self] = sum;
  ts_barrier();
  for (uint32_t distance = TS104_REDUCE_CTA / 2; distance != 0; distance /= 2) {
    if (self < distance)
      sums->of_thread[self] += sums->of_thread[self + distance];
    ts_barrier();
  }
  if (self == 0)
    ts_atomic_add64((uint64_t *)args->sum, sums->of_thread[0]);
}
