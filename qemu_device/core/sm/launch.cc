// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sm/launch.h"

#include "sm/sm_memory.h"

namespace sm {
namespace {

bool WindowFits(uint64_t base) {
  return (base & kPageMask) == 0 && base <= kVaLimit - kWindowExtent;
}

// The local window's guard lies below it.
bool Overlap(uint64_t shared, uint64_t local) {
  return local >= shared ? local - shared < 2 * kWindowExtent : shared - local < kWindowExtent;
}

}  // namespace

const char* LaunchErrorName(LaunchError error) {
  switch (error) {
    case LaunchError::kNone: return "none";
    case LaunchError::kGridEmpty: return "grid has no CTA";
    case LaunchError::kGridTooLarge: return "grid height or depth exceeds 65535";
    case LaunchError::kCtaEmpty: return "CTA has no thread";
    case LaunchError::kCtaTooLarge: return "CTA has more than 1024 threads";
    case LaunchError::kSharedTooLarge: return "shared memory exceeds 64 KiB";
    case LaunchError::kLocalTooLarge: return "local memory exceeds 64 KiB per thread";
    case LaunchError::kLocalMisaligned: return "local memory is not a multiple of 16 bytes";
    case LaunchError::kTooManyBarriers: return "more than 16 barriers";
    case LaunchError::kProgramMisaligned: return "program address is not a multiple of 4";
    case LaunchError::kAddressTooLarge: return "address exceeds 49 bits";
    case LaunchError::kBadWindow: return "bad shared or local memory window";
  }
  return "unknown";
}

LaunchError Launch::Validate() const {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return LaunchError::kGridEmpty;
  if (grid.y > kMaxGridHeightDepth || grid.z > kMaxGridHeightDepth) {
    return LaunchError::kGridTooLarge;
  }
  if (cta.x == 0 || cta.y == 0 || cta.z == 0) return LaunchError::kCtaEmpty;
  // Each alone first: the product of three arbitrary 32-bit values could wrap.
  if (cta.x > kMaxCtaThreads || cta.y > kMaxCtaThreads || cta.z > kMaxCtaThreads ||
      cta.Count() > kMaxCtaThreads) {
    return LaunchError::kCtaTooLarge;
  }
  if (shared_bytes > kMaxSharedBytes) return LaunchError::kSharedTooLarge;
  if (local_bytes > kMaxLocalBytes) return LaunchError::kLocalTooLarge;
  if (local_bytes % 16 != 0) return LaunchError::kLocalMisaligned;
  if (barrier_count > kMaxBarriers) return LaunchError::kTooManyBarriers;
  if ((program_address & 3) != 0) return LaunchError::kProgramMisaligned;
  if (program_address >= kVaLimit || constant_buffer_address >= kVaLimit ||
      local_memory >= kVaLimit) {
    return LaunchError::kAddressTooLarge;
  }
  if (!WindowFits(shared_window) || !WindowFits(local_window) ||
      Overlap(shared_window, local_window)) {
    return LaunchError::kBadWindow;
  }
  return LaunchError::kNone;
}

}  // namespace sm
