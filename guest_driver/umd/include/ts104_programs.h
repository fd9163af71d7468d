/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Argument blocks of the programs that come with libts104, for the programs (C) and for whoever
 * launches them (C++). Addresses are GPU-virtual. Each comment gives the grid to launch.
 */
#ifndef TS104_PROGRAMS_H_
#define TS104_PROGRAMS_H_

#include <stdint.h>

/* vecadd: c[i] = a[i] + b[i], uint32. Any 1-D grid. */
struct ts104_vecadd_args {
  uint64_t a;
  uint64_t b;
  uint64_t c;
  uint64_t count;
};

/* saxpy: y[i] = alpha * x[i] + y[i], float, one rounding (fused). Any 1-D grid. */
struct ts104_saxpy_args {
  uint64_t x;
  uint64_t y;
  uint64_t count;
  float alpha;
  uint32_t reserved;
};

/*
 * sgemm: C = alpha * A * B + beta * C, row major float, A m x k, B k x n, C m x n.
 * CTA 32 x 8 x 1, grid (ceil(n / 32), ceil(m / 32), 1). Each sum is built in the order of k with
 * fused multiply-adds, so a CPU that does the same gets the same bits.
 */
#define TS104_SGEMM_TILE 32
#define TS104_SGEMM_CTA_ROWS 8
struct ts104_sgemm_args {
  uint64_t a;
  uint64_t b;
  uint64_t c;
  uint32_t m;
  uint32_t n;
  uint32_t k;
  float alpha;
  float beta;
  uint32_t reserved;
};

/* reduce: *sum += all data[i], uint32 into uint64. CTA 256 x 1 x 1, any 1-D grid. */
#define TS104_REDUCE_CTA 256
struct ts104_reduce_args {
  uint64_t data;
  uint64_t sum;
  uint64_t count;
};

/* histogram: bins[b] += how often byte b occurs, 256 x uint32. Any 1-D grid. */
struct ts104_histogram_args {
  uint64_t data;
  uint64_t bins;
  uint64_t count;
};

/*
 * sha256_tree: one level of a Merkle tree as RFC 6962 defines it. Any 1-D grid; launched once with
 * MODE_LEAVES, then with MODE_NODES and the output as input until one hash is left.
 *   leaves: out[i] = SHA-256(0x00 | data[i * leaf_bytes ...]), i < ceil(count / leaf_bytes);
 *           count in bytes, the last leaf may be shorter; count 0 makes no hash.
 *   nodes:  out[i] = SHA-256(0x01 | in[2i] | in[2i + 1]), i < ceil(count / 2); count in hashes, a
 *           last one without a partner moves up unchanged.
 */
#define TS104_SHA256_MODE_LEAVES 0
#define TS104_SHA256_MODE_NODES 1
struct ts104_sha256_tree_args {
  uint64_t in;
  uint64_t out;
  uint64_t count;
  uint32_t leaf_bytes;
  uint32_t mode;
};

/* endless_loop: every thread counts in *counter (uint32, atomically) for ever. */
struct ts104_endless_loop_args {
  uint64_t counter;
};

/* spin: every thread goes round an empty loop of two instructions. Any grid. */
struct ts104_spin_args {
  uint32_t rounds;
  uint32_t reserved;
};

/* wild_store: thread 0 of the grid stores `value` (uint32) at `address`. */
struct ts104_wild_store_args {
  uint64_t address;
  uint32_t value;
  uint32_t reserved;
};

/* stack_overrun: recurses until its local memory is used up. */
struct ts104_stack_overrun_args {
  uint64_t reserved;
};

/* trap: thread 0 of the grid traps with `code`; the others exit. */
struct ts104_trap_args {
  uint64_t code;
};

#endif /* TS104_PROGRAMS_H_ */
