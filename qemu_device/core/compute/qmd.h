// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Queue meta data: what a compute launch hands to the GPU. Layout V02_03 (clc5c0qmd.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "sm/launch.h"

namespace compute {

inline constexpr uint32_t kQmdWords = 64;

enum class QmdError : uint8_t {
  kNone,
  kBadVersion,         // QMD_MAJOR_VERSION.QMD_VERSION is not 2.3
  kQueue,              // IS_QUEUE: TS104 has no circular queues
  kDependentQmd,       // DEPENDENT_QMD_SCHEDULE_ENABLE: TS104 has no dependent launches
  kResume,             // a CTA_RASTER_*_RESUME other than 0
  kLocalHighSize,      // SHADER_LOCAL_MEMORY_HIGH_SIZE other than 0
  kReleaseMisaligned,  // semaphore not aligned to its size
  kBadReduction,       // reduction on a format other than 32-bit, or an undefined operation
  kLaunch,             // Qmd::launch does not validate: launch_error tells
};
const char* QmdErrorName(QmdError error);

struct ConstantBuffer {
  bool valid = false;
  uint64_t address = 0;  // 49 bits
  uint32_t bytes = 0;
};

// A semaphore to release when all CTAs have ended and their writes are visible.
struct SemaphoreRelease {
  bool enabled = false;
  uint64_t address = 0;  // 40 bits; aligned to 16 or, with one_word, to 4
  uint32_t payload = 0;
  bool one_word = false;      // 4 bytes instead of payload, 0, timestamp
  bool reduction = false;     // combine with the word in memory instead of writing it
  uint32_t reduction_op = 0;  // 0 ADD 1 MIN 2 MAX 3 INC 4 DEC 5 AND 6 OR 7 XOR
  bool reduction_signed = false;
};

// One decoded QMD. Everything the SMs need is in `launch`.
struct Qmd {
  sm::Launch launch;
  sm::LaunchError launch_error = sm::LaunchError::kNone;
  std::array<ConstantBuffer, 8> constant_buffers;
  std::array<SemaphoreRelease, 2> releases;
  bool invalidate_instruction_cache = false;
  bool release_membar = false;
};

// What the channel's methods add to a QMD.
struct ClassState {
  uint64_t shared_window = sm::kDefaultSharedWindow;  // SET_SHADER_SHARED_MEMORY_WINDOW_A/B
  uint64_t local_window = sm::kDefaultLocalWindow;    // SET_SHADER_LOCAL_MEMORY_WINDOW_A/B
  uint64_t local_memory = 0;                          // SET_SHADER_LOCAL_MEMORY_A/B
  uint64_t context_id = 0;                            // names the address space
};

// Decodes and judges. On an error `qmd` holds what could be read; nothing of it may run.
QmdError ParseQmd(std::span<const uint32_t, kQmdWords> words, const ClassState& state, Qmd& qmd);

}  // namespace compute
