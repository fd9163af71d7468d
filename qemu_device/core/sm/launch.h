// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One grid launch in the form the SMs run it; common/ts104/program_abi.md is the specification.
#pragma once

#include <cstdint>

namespace sm {

inline constexpr uint32_t kMaxCtaThreads = 1024;
inline constexpr uint32_t kMaxSharedBytes = 64 * 1024;
inline constexpr uint32_t kMaxLocalBytes = 64 * 1024;  // per thread
inline constexpr uint32_t kMaxBarriers = 16;
inline constexpr uint32_t kMaxGridHeightDepth = 0xffff;

// Where the windows lie when no SET_SHADER_*_MEMORY_WINDOW method named another place, and how much
// of the address space each one takes, whatever its memory's size.
inline constexpr uint64_t kDefaultSharedWindow = 0x0000'fe00'0000'0000;
inline constexpr uint64_t kDefaultLocalWindow = 0x0000'ff00'0000'0000;
inline constexpr uint64_t kWindowExtent = uint64_t{1} << 24;
inline constexpr uint64_t kVaLimit = uint64_t{1} << 49;

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;

  // No overflow for the ranges that a QMD can express (32, 16 and 16 bits).
  uint64_t Count() const { return uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

enum class LaunchError : uint8_t {
  kNone,
  kGridEmpty,
  kGridTooLarge,
  kCtaEmpty,
  kCtaTooLarge,        // more than 1024 threads
  kSharedTooLarge,     // more than 64 KiB
  kLocalTooLarge,      // more than 64 KiB per thread
  kLocalMisaligned,    // not a multiple of 16
  kTooManyBarriers,    // more than 16
  kProgramMisaligned,  // PROGRAM_ADDRESS is not a multiple of 4
  kAddressTooLarge,    // an address beyond 49 bits
  kBadWindow,          // window not 4 KiB aligned, beyond 49 bits, or overlapping the other one
};
const char* LaunchErrorName(LaunchError error);

struct Launch {
  uint64_t context_id = 0;  // names the address space for the decoded-code cache
  uint64_t program_address = 0;
  uint64_t constant_buffer_address = 0;  // 0 when the QMD has no valid constant buffer 0
  uint32_t constant_buffer_bytes = 0;
  uint32_t shared_bytes = 0;
  uint32_t local_bytes = 0;  // per thread; a multiple of 16 (LOW_SIZE rounded up)
  uint32_t barrier_count = 0;
  bool sequential = false;  // one CTA at a time (SEQUENTIALLY_RUN_CTAS)
  Dim3 grid;
  Dim3 cta;
  uint64_t shared_window = kDefaultSharedWindow;
  uint64_t local_window = kDefaultLocalWindow;
  // Where the threads' local memory really lies: thread t of the CTA on SM s has local_bytes bytes
  // at local_memory + (s * 1024 + t) * local_bytes.
  uint64_t local_memory = 0;

  // Judges every field; a GridExecutor runs only launches for which this says kNone.
  LaunchError Validate() const;
  bool operator==(const Launch&) const = default;
};

}  // namespace sm
