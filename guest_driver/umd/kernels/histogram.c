/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Counts bytes: atomics on shared bins, then one global atomic per used bin and CTA. */
#include "ts104_kernel.h"
#include "ts104_programs.h"

#define BINS 256

struct bins {
  uint32_t count[BINS];
};

TS_PROGRAM(struct ts104_histogram_args, .shared_bytes = sizeof(struct bins), .barriers = 1)

TS_MAIN(const struct ts104_histogram_args *args)
{
  TS_SHARED(struct bins, bins); /* starts as 0 */
  const uint8_t *data = (const uint8_t *)args->data;
  uint32_t *total = (uint32_t *)args->bins;
  const uint64_t count = args->count;
  const uint64_t step = ts_grid_threads_x();

  for (uint64_t i = ts_global_x(); i < count; i += step)
    ts_atomic_add32(&bins->count[data[i]], 1);
  ts_barrier();
  for (uint32_t bin = ts_tid_x(); bin < BINS; bin += ts_ntid_x()) {
    if (bins->count[bin] != 0)
      ts_atomic_add32(&total[bin], bins->count[bin]);
  }
}
