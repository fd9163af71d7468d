// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "compute/qmd.h"

#include "base/bits.h"
#include "ts104/regs.h"

namespace compute {
namespace {

#define QMD_FIELD(words, name) \
  base::GetBits(words, NVC5C0_QMDV02_03_##name##__HI, NVC5C0_QMDV02_03_##name##__LO)

using Words = std::span<const uint32_t, kQmdWords>;

constexpr uint32_t kReductionUnsigned32 = 0;
constexpr uint32_t kReductionSigned32 = 1;
// RELEASE1_* fields lie this many bits behind RELEASE0_*.
constexpr size_t kReleaseStrideBits =
    NVC5C0_QMDV02_03_RELEASE1_ADDRESS_LOWER__LO - NVC5C0_QMDV02_03_RELEASE0_ADDRESS_LOWER__LO;
constexpr size_t kConstantBufferStrideBits = NVC5C0_QMD_CONSTANT_BUFFER_STRIDE_BITS;

uint32_t Narrow(uint64_t value) { return static_cast<uint32_t>(value); }

ConstantBuffer ParseConstantBuffer(Words words, size_t index) {
  const size_t at = index * kConstantBufferStrideBits;
  const auto field = [&](size_t hi, size_t lo) { return base::GetBits(words, hi + at, lo + at); };
  ConstantBuffer buffer;
  const size_t valid = NVC5C0_QMDV02_03_CONSTANT_BUFFER_VALID_0__LO + index;
  buffer.valid = base::GetBits(words, valid, valid) != 0;
  buffer.address = field(NVC5C0_QMDV02_03_CONSTANT_BUFFER_ADDR_LOWER_0__HI,
                         NVC5C0_QMDV02_03_CONSTANT_BUFFER_ADDR_LOWER_0__LO) |
                   field(NVC5C0_QMDV02_03_CONSTANT_BUFFER_ADDR_UPPER_0__HI,
                         NVC5C0_QMDV02_03_CONSTANT_BUFFER_ADDR_UPPER_0__LO)
                       << 32;
  buffer.bytes = Narrow(field(NVC5C0_QMDV02_03_CONSTANT_BUFFER_SIZE_SHIFTED4_0__HI,
                              NVC5C0_QMDV02_03_CONSTANT_BUFFER_SIZE_SHIFTED4_0__LO)
                        << 4);
  return buffer;
}

QmdError ParseRelease(Words words, size_t index, SemaphoreRelease& release) {
  const size_t at = index * kReleaseStrideBits;
  const auto field = [&](size_t hi, size_t lo) { return base::GetBits(words, hi + at, lo + at); };
  release.enabled = index == 0 ? QMD_FIELD(words, SEMAPHORE_RELEASE_ENABLE0) != 0
                               : QMD_FIELD(words, SEMAPHORE_RELEASE_ENABLE1) != 0;
  if (!release.enabled) return QmdError::kNone;
#define RELEASE_FIELD(name) \
  field(NVC5C0_QMDV02_03_RELEASE0_##name##__HI, NVC5C0_QMDV02_03_RELEASE0_##name##__LO)
  release.address = RELEASE_FIELD(ADDRESS_LOWER) | RELEASE_FIELD(ADDRESS_UPPER) << 32;
  release.payload = Narrow(RELEASE_FIELD(PAYLOAD));
  release.one_word = RELEASE_FIELD(STRUCTURE_SIZE) != 0;
  release.reduction = RELEASE_FIELD(REDUCTION_ENABLE) != 0;
  release.reduction_op = Narrow(RELEASE_FIELD(REDUCTION_OP));
  const auto format = Narrow(RELEASE_FIELD(REDUCTION_FORMAT));
#undef RELEASE_FIELD
  release.reduction_signed = format == kReductionSigned32;
  if (release.address % (release.one_word ? 4 : 16) != 0) return QmdError::kReleaseMisaligned;
  if (release.reduction && format != kReductionUnsigned32 && format != kReductionSigned32) {
    return QmdError::kBadReduction;
  }
  return QmdError::kNone;
}

sm::Launch ParseLaunch(Words words, const ClassState& state) {
  sm::Launch launch;
  launch.context_id = state.context_id;
  launch.program_address =
      QMD_FIELD(words, PROGRAM_ADDRESS_LOWER) | QMD_FIELD(words, PROGRAM_ADDRESS_UPPER) << 32;
  launch.grid = {Narrow(QMD_FIELD(words, CTA_RASTER_WIDTH)),
                 Narrow(QMD_FIELD(words, CTA_RASTER_HEIGHT)),
                 Narrow(QMD_FIELD(words, CTA_RASTER_DEPTH))};
  launch.cta = {Narrow(QMD_FIELD(words, CTA_THREAD_DIMENSION0)),
                Narrow(QMD_FIELD(words, CTA_THREAD_DIMENSION1)),
                Narrow(QMD_FIELD(words, CTA_THREAD_DIMENSION2))};
  launch.shared_bytes = Narrow(QMD_FIELD(words, SHARED_MEMORY_SIZE));
  launch.local_bytes =
      (Narrow(QMD_FIELD(words, SHADER_LOCAL_MEMORY_LOW_SIZE)) + 15) & ~uint32_t{15};
  launch.barrier_count = Narrow(QMD_FIELD(words, BARRIER_COUNT));
  launch.sequential = QMD_FIELD(words, SEQUENTIALLY_RUN_CTAS) != 0;
  launch.shared_window = state.shared_window;
  launch.local_window = state.local_window;
  launch.local_memory = state.local_memory;
  return launch;
}

}  // namespace

const char* QmdErrorName(QmdError error) {
  switch (error) {
    case QmdError::kNone: return "none";
    case QmdError::kBadVersion: return "QMD version is not 2.3";
    case QmdError::kQueue: return "queue QMDs are not supported";
    case QmdError::kDependentQmd: return "dependent QMDs are not supported";
    case QmdError::kResume: return "a launch cannot start at a resume point";
    case QmdError::kLocalHighSize: return "SHADER_LOCAL_MEMORY_HIGH_SIZE must be 0";
    case QmdError::kReleaseMisaligned: return "release semaphore is misaligned";
    case QmdError::kBadReduction: return "undefined release reduction format";
    case QmdError::kLaunch: return "launch dimensions, sizes or addresses are illegal";
  }
  return "unknown";
}

QmdError ParseQmd(Words words, const ClassState& state, Qmd& qmd) {
  qmd = {};
  if (QMD_FIELD(words, QMD_MAJOR_VERSION) != NVC5C0_QMDV02_03_QMD_MAJOR_VERSION_CURRENT ||
      QMD_FIELD(words, QMD_VERSION) != NVC5C0_QMDV02_03_QMD_VERSION_CURRENT) {
    return QmdError::kBadVersion;
  }
  if (QMD_FIELD(words, IS_QUEUE) != 0) return QmdError::kQueue;
  if (QMD_FIELD(words, DEPENDENT_QMD_SCHEDULE_ENABLE) != 0) return QmdError::kDependentQmd;
  if (QMD_FIELD(words, CTA_RASTER_WIDTH_RESUME) != 0 ||
      QMD_FIELD(words, CTA_RASTER_HEIGHT_RESUME) != 0 ||
      QMD_FIELD(words, CTA_RASTER_DEPTH_RESUME) != 0) {
    return QmdError::kResume;
  }
  if (QMD_FIELD(words, SHADER_LOCAL_MEMORY_HIGH_SIZE) != 0) return QmdError::kLocalHighSize;
  qmd.invalidate_instruction_cache = QMD_FIELD(words, INVALIDATE_INSTRUCTION_CACHE) != 0;
  qmd.release_membar = QMD_FIELD(words, RELEASE_MEMBAR_TYPE) != 0;
  for (size_t i = 0; i < qmd.releases.size(); ++i) {
    const QmdError error = ParseRelease(words, i, qmd.releases[i]);
    if (error != QmdError::kNone) return error;
  }
  for (size_t i = 0; i < qmd.constant_buffers.size(); ++i) {
    qmd.constant_buffers[i] = ParseConstantBuffer(words, i);
  }
  qmd.launch = ParseLaunch(words, state);
  if (qmd.constant_buffers[0].valid) {
    qmd.launch.constant_buffer_address = qmd.constant_buffers[0].address;
    qmd.launch.constant_buffer_bytes = qmd.constant_buffers[0].bytes;
  }
  qmd.launch_error = qmd.launch.Validate();
  return qmd.launch_error == sm::LaunchError::kNone ? QmdError::kNone : QmdError::kLaunch;
}

#undef QMD_FIELD

}  // namespace compute
