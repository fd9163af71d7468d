// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The GR context buffer that RAMIN ENGINE_WFI_PTR names, and its way to memory and back.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_GR_CONTEXT_H_
#define TURNSTILE_QEMU_DEVICE_CORE_GR_CONTEXT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compute/qmd.h"
#include "engine.h"
#include "sm/thread_state.h"

namespace ts104 {

// Values of the compute class's methods that a launch depends on, by what they are.
enum ClassWord : uint32_t {
  kLineLengthIn,
  kInlineLineCount,
  kOffsetOutUpper,
  kOffsetOutLower,
  kInlinePitchOut,
  kInlineLaunch,
  kInlineSemaphoreUpper,
  kInlineSemaphoreLower,
  kInlineSemaphorePayload,
  kNotifyUpper,
  kNotifyLower,
  kSharedWindowUpper,
  kSharedWindowLower,
  kQmdShifted,
  kInlineQmdUpper,
  kInlineQmdLower,
  kLocalMemoryUpper,
  kLocalMemoryLower,
  kLocalWindowUpper,
  kLocalWindowLower,
  kReportUpper,
  kReportLower,
  kReportPayload,
  kInlineActive,  // an inline-to-memory transfer waits for data
  kInlineLine,    // its next byte: line, byte in the line
  kInlineByte,
  kWindowsSet,  // bit 0 shared, bit 1 local: the window methods were used
  kClassWordCount,
};
using ClassWords = std::array<uint32_t, 64>;
static_assert(kClassWordCount <= 64);

// COMPUTE_PREEMPTION_OPTIONS.CONTROL.
enum class PreemptionMode : uint32_t { kWfi = 0, kCta = 1, kCilp = 2 };

// What a saved context consists of. The layout is in gr_context.cc.
struct GrContext {
  ClassWords words{};
  PreemptionMode mode = PreemptionMode::kCilp;
  std::array<compute::SemaphoreRelease, 2> releases;  // of the saved grid
  std::vector<std::byte> grid;                        // empty: no grid
  sm::StopRecord last_stop;                           // for post-mortem reading, not loaded
};

// Where the buffer lies.
class GrContextBuffer {
 public:
  static constexpr uint64_t kGridOffset = 0x1000;

  // Bytes of a context buffer for `sms` SMs: NV_TS104_CTX_SIZE.
  static uint64_t Bytes(uint32_t sms);

  enum class LoadError : uint8_t {
    kNone,
    kNoContext,   // the pointer is 0
    kBadContext,  // unusable pointer, or an image that does not validate
    kFault,       // fault() tells
  };

  GrContextBuffer(Machine& machine, const ChannelContext& channel)
      : machine_(machine), channel_(channel) {}

  // A buffer without the magic gives a fresh context.
  LoadError Load(GrContext& context);
  // False: fault() tells why it could not be written.
  bool Save(const GrContext& context);
  const MmuFault& fault() const { return fault_; }

 private:
  struct Location {
    bool is_virtual = false;
    uint64_t address = 0;
  };

  std::optional<Location> Locate(bool& is_null) const;
  bool Read(const Location& at, uint64_t offset, std::span<std::byte> data);
  bool Write(const Location& at, uint64_t offset, std::span<const std::byte> data);

  Machine& machine_;
  const ChannelContext& channel_;
  MmuFault fault_;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_GR_CONTEXT_H_
