/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tiled matrix product. A CTA of 32 x 8 threads makes one 32 x 32 tile of C; each thread makes four
 * elements of one column, so that a value of B serves four multiply-adds. Tiles of A and B pass
 * through shared memory; beyond the matrices they are filled with zeros.
 */
#include "ts104_kernel.h"
#include "ts104_programs.h"

#define TILE TS104_SGEMM_TILE
#define CTA_ROWS TS104_SGEMM_CTA_ROWS
#define PER_THREAD (TILE / CTA_ROWS)

struct tiles {
  float a[TILE][TILE];
  float b[TILE][TILE];
};

TS_PROGRAM(struct ts104_sgemm_args, .shared_bytes = sizeof(struct tiles), .barriers = 1)

static void load_tile(float tile[TILE][TILE], const float *matrix, uint32_t rows, uint32_t columns,
                      uint32_t first_row, uint32_t first_column)
{
  const uint32_t column = first_column + ts_tid_x();

  for (uint32_t i = 0; i < PER_THREAD; ++i) {
    const uint32_t y = ts_tid_y() + i * CTA_ROWS;
    const uint32_t row = first_row + y;
    const int inside = row < rows && column < columns;

    tile[y][ts_tid_x()] = inside ? matrix[(uint64_t)row * columns + column] : 0.0f;
  }
}

TS_MAIN(const struct ts104_sgemm_args *args)
{
  TS_SHARED(struct tiles, tiles);
  const uint32_t x = ts_tid_x();
  const uint32_t y = ts_tid_y();
  const uint32_t first_row = ts_ctaid_y() * TILE;
  const uint32_t first_column = ts_ctaid_x() * TILE;
  float sum[PER_THREAD] = {0};

  for (uint32_t k = 0; k < args->k; k += TILE) {
    load_tile(tiles->a, (const float *)args->a, args->m, args->k, first_row, k);
    load_tile(tiles->b, (const float *)args->b, args->k, args->n, k, first_column);
    ts_barrier();
#pragma clang loop unroll_count(8)
    for (uint32_t i = 0; i < TILE; ++i) {
      const float b = tiles->b[i][x];

      for (uint32_t j = 0; j < PER_THREAD; ++j)
        sum[j] = ts_fmaf(tiles->a[y + j * CTA_ROWS][i], b, sum[j]);
    }
    ts_barrier();
  }

  for (uint32_t j = 0; j < PER_THREAD; ++j) {
    const uint32_t row = first_row + y + j * CTA_ROWS;
    const uint32_t column = first_column + x;

    if (row < args->m && column < args->n) {
      float *c = (float *)args->c + (uint64_t)row * args->n + column;

      *c = args->beta == 0.0f ? args->alpha * sum[j]
                              : ts_fmaf(args->alpha, sum[j], args->beta * *c);
    }
  }
}
