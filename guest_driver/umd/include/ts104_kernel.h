/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs for TS104 in C: thread and CTA ids, barriers, shared memory, atomics, traps.
 * The machine is described in common/ts104/program_abi.md. A whole program:
 *
 *   #include "ts104_kernel.h"
 *   struct args { uint64_t data; uint32_t count; };
 *   TS_PROGRAM(struct args)
 *   TS_MAIN(const struct args *args)
 *   {
 *     uint32_t i = ts_global_x();
 *     if (i < args->count)
 *       ((uint32_t *)args->data)[i] *= 2;
 *   }
 *
 *   clang --target=riscv64 -march=rv64imafd -mabi=lp64d -mcmodel=medany -fPIC -ffreestanding -O2 \
 *     -nostdlib -fuse-ld=lld -Wl,-pie,--no-dynamic-linker,--gc-sections,-T,ts104.ld
 */
#ifndef TS104_KERNEL_H_
#define TS104_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

/* --- Program ------------------------------------------------------------------------------- */

/* What the loader puts into the launch; lies in the file's PT_NOTE. */
struct ts_note {
  uint32_t name_bytes;
  uint32_t description_bytes;
  uint32_t type;
  char name[8];
  uint32_t version;
  uint32_t shared_bytes;   /* per CTA, <= 64 KiB */
  uint32_t local_bytes;    /* stack per thread, <= 64 KiB */
  uint32_t barriers;       /* how many barrier ids the program uses, <= 16 */
  uint32_t argument_bytes; /* of constant buffer 0 */
  uint32_t reserved;
};

#define TS_DEFAULT_LOCAL_BYTES 1024

/*
 * Once per program: the argument block's type and, as designated initializers, what differs from
 * the defaults (.shared_bytes 0, .local_bytes 1024, .barriers 0). Also places the entry point,
 * which calls the function that TS_MAIN names and ends the thread.
 */
#define TS_PROGRAM(args_type, ...)                                                        \
  _Pragma("clang diagnostic push")                                                        \
  _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"")                         \
  __attribute__((section(".note.ts104"), used, aligned(4))) static const struct ts_note   \
      ts_program_note = {.name_bytes = 6,                                                 \
                         .description_bytes = 24,                                         \
                         .type = 1,                                                       \
                         .name = "TS104",                                                 \
                         .version = 1,                                                    \
                         .local_bytes = TS_DEFAULT_LOCAL_BYTES,                           \
                         .argument_bytes = sizeof(args_type),                             \
                         __VA_ARGS__};                                                    \
  _Pragma("clang diagnostic pop")                                                         \
  __asm__(                                                                                \
      ".pushsection .text.start, \"ax\", @progbits\n"                                     \
      ".globl _start\n"                                                                   \
      ".type _start, @function\n"                                                         \
      "_start:\n"                                                                         \
      "  call ts_main\n"                                                                  \
      "  li a7, 0\n"                                                                      \
      "  ecall\n"                                                                         \
      ".size _start, . - _start\n"                                                        \
      ".popsection\n");

#define TS_MAIN(argument)       \
  void ts_main(argument);       \
  __attribute__((used)) void ts_main(argument)

/* --- Identity ------------------------------------------------------------------------------ */

/* Constant for a thread, so the compiler may merge reads. */
#define TS_ID(name, csr)                                  \
  static inline uint32_t ts_##name(void)                  \
  {                                                       \
    uint64_t value;                                       \
    __asm__("csrr %0, " #csr : "=r"(value));              \
    return (uint32_t)value;                               \
  }

TS_ID(tid_x, 0xcc0)
TS_ID(tid_y, 0xcc1)
TS_ID(tid_z, 0xcc2)
TS_ID(ctaid_x, 0xcc3)
TS_ID(ctaid_y, 0xcc4)
TS_ID(ctaid_z, 0xcc5)
TS_ID(ntid_x, 0xcc6)
TS_ID(ntid_y, 0xcc7)
TS_ID(ntid_z, 0xcc8)
TS_ID(nctaid_x, 0xcc9)
TS_ID(nctaid_y, 0xcca)
TS_ID(nctaid_z, 0xccb)
TS_ID(linear_tid, 0xccc) /* of the thread in its CTA */
TS_ID(sm_id, 0xccd)
#undef TS_ID

static inline uint32_t ts_global_x(void)
{
  return ts_ctaid_x() * ts_ntid_x() + ts_tid_x();
}

/* Number of threads of the grid in x: the step of a grid-stride loop. */
static inline uint32_t ts_grid_threads_x(void)
{
  return ts_nctaid_x() * ts_ntid_x();
}

/* GPU time in nanoseconds, and cycles of this SM since the launch. */
static inline uint64_t ts_time_ns(void)
{
  uint64_t value;
  __asm__ volatile("csrr %0, 0xcce" : "=r"(value));
  return value;
}

static inline uint64_t ts_cycles(void)
{
  uint64_t value;
  __asm__ volatile("csrr %0, 0xc00" : "=r"(value));
  return value;
}

/* --- Calls --------------------------------------------------------------------------------- */

static inline __attribute__((noreturn)) void ts_exit(void)
{
  register uint64_t call __asm__("a7") = 0;
  __asm__ volatile("ecall" : : "r"(call) : "memory");
  __builtin_unreachable();
}

/* Waits for every live thread of the CTA. Orders all memory accesses around it. */
static inline void ts_barrier_id(uint32_t id)
{
  register uint64_t call __asm__("a7") = 1;
  register uint64_t number __asm__("a0") = id;
  __asm__ volatile("ecall" : : "r"(call), "r"(number) : "memory");
}

static inline void ts_barrier(void)
{
  ts_barrier_id(0);
}

/* Ends the grid; the code reaches the host. */
static inline __attribute__((noreturn)) void ts_trap(uint64_t code)
{
  register uint64_t call __asm__("a7") = 2;
  register uint64_t value __asm__("a0") = code;
  __asm__ volatile("ecall" : : "r"(call), "r"(value) : "memory");
  __builtin_unreachable();
}

/* --- Memory -------------------------------------------------------------------------------- */

/*
 * Shared memory of the CTA, seen as one structure; .shared_bytes must be at least its size:
 *   TS_SHARED(struct tiles, tiles);
 *   tiles->a[y][x] = 0;
 */
#define TS_SHARED(type, name) type *const name = (type *)ts_shared_base()

static inline void *ts_shared_base(void)
{
  void *base;
  __asm__("mv %0, tp" : "=r"(base));
  return base;
}

/* Relaxed atomics on shared or global memory; all return the former value. */
static inline uint32_t ts_atomic_add32(uint32_t *p, uint32_t v)
{
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline uint64_t ts_atomic_add64(uint64_t *p, uint64_t v)
{
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline uint32_t ts_atomic_exchange32(uint32_t *p, uint32_t v)
{
  return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
}
static inline uint32_t ts_atomic_cas32(uint32_t *p, uint32_t expected, uint32_t desired)
{
  __atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

/* Orders this thread's accesses for all other threads and for the CPUs. */
static inline void ts_fence(void)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* a * b + c with one rounding, whatever the compiler's floating-point flags are. */
static inline float ts_fmaf(float a, float b, float c)
{
  float result;
  __asm__("fmadd.s %0, %1, %2, %3" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

/* What the compiler may call by itself; dropped by the linker when unused. */
void *memset(void *to, int value, size_t bytes);
__attribute__((weak, no_builtin("memset"))) void *memset(void *to, int value, size_t bytes)
{
  for (size_t i = 0; i < bytes; ++i)
    ((unsigned char *)to)[i] = (unsigned char)value;
  return to;
}

void *memcpy(void *to, const void *from, size_t bytes);
__attribute__((weak, no_builtin("memcpy"))) void *memcpy(void *to, const void *from, size_t bytes)
{
  for (size_t i = 0; i < bytes; ++i)
    ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
  return to;
}

#endif /* TS104_KERNEL_H_ */
