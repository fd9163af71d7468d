// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The methods of class C5C0.
#include <algorithm>
#include <array>
#include <utility>

#include "gr_engine.h"

namespace ts104 {
namespace {

constexpr uint32_t kNone = ~0u;

// The class word that keeps a method's data; kNone for one that does something.
uint32_t WordOf(uint32_t method) {
  switch (method) {
    case NVC5C0_LINE_LENGTH_IN: return kLineLengthIn;
    case NVC5C0_LINE_COUNT: return kInlineLineCount;
    case NVC5C0_OFFSET_OUT_UPPER: return kOffsetOutUpper;
    case NVC5C0_OFFSET_OUT: return kOffsetOutLower;
    case NVC5C0_PITCH_OUT: return kInlinePitchOut;
    case NVC5C0_SET_I2M_SEMAPHORE_A: return kInlineSemaphoreUpper;
    case NVC5C0_SET_I2M_SEMAPHORE_B: return kInlineSemaphoreLower;
    case NVC5C0_SET_I2M_SEMAPHORE_C: return kInlineSemaphorePayload;
    case NVC5C0_SET_NOTIFY_A: return kNotifyUpper;
    case NVC5C0_SET_NOTIFY_B: return kNotifyLower;
    case NVC5C0_SET_SHADER_SHARED_MEMORY_WINDOW_A: return kSharedWindowUpper;
    case NVC5C0_SET_SHADER_SHARED_MEMORY_WINDOW_B: return kSharedWindowLower;
    case NVC5C0_SEND_PCAS_A: return kQmdShifted;
    case NVC5C0_SET_INLINE_QMD_ADDRESS_A: return kInlineQmdUpper;
    case NVC5C0_SET_INLINE_QMD_ADDRESS_B: return kInlineQmdLower;
    case NVC5C0_SET_SHADER_LOCAL_MEMORY_A: return kLocalMemoryUpper;
    case NVC5C0_SET_SHADER_LOCAL_MEMORY_B: return kLocalMemoryLower;
    case NVC5C0_SET_SHADER_LOCAL_MEMORY_WINDOW_A: return kLocalWindowUpper;
    case NVC5C0_SET_SHADER_LOCAL_MEMORY_WINDOW_B: return kLocalWindowLower;
    case NVC5C0_SET_REPORT_SEMAPHORE_A: return kReportUpper;
    case NVC5C0_SET_REPORT_SEMAPHORE_B: return kReportLower;
    case NVC5C0_SET_REPORT_SEMAPHORE_C: return kReportPayload;
    default: return kNone;
  }
}

// Listed methods that TS104 has no use for.
bool IsAccepted(uint32_t method) {
  switch (method) {
    case NVC5C0_NO_OPERATION:
    case NVC5C0_WAIT_FOR_IDLE:
    case NVC5C0_INVALIDATE_SHADER_CACHES:
    case NVC5C0_SET_CWD_REF_COUNTER:
    case NVC5C0_INVALIDATE_SKED_CACHES:
    case NVC5C0_SET_CWD_SLOT_COUNT:
    case NVC5C0_SEND_PCAS_B:
    case NVC5C0_SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A:
    case NVC5C0_SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B:
    case NVC5C0_SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C:
    case NVC5C0_SET_SPA_VERSION: return true;
    default: return false;
  }
}

}  // namespace

EngineResult GrEngine::StoreOrRun(uint32_t method, uint32_t data, uint64_t now) {
  if (const uint32_t word = WordOf(method); word != kNone) {
    context_.words[word] = data;
    if (word == kSharedWindowUpper || word == kSharedWindowLower) context_.words[kWindowsSet] |= 1;
    if (word == kLocalWindowUpper || word == kLocalWindowLower) context_.words[kWindowsSet] |= 2;
    return EngineResult::Ok();
  }
  if (IsAccepted(method)) return EngineResult::Ok();
  constexpr uint32_t kQmdData = NVC5C0_LOAD_INLINE_QMD_DATA(0);
  if (method >= kQmdData && method < kQmdData + compute::kQmdWords * 4) {
    return LoadInlineQmd((method - kQmdData) / 4, data, now);
  }
  switch (method) {
    case NVC5C0_SEND_SIGNALING_PCAS_B:
      if (TS104_GET(NVC5C0_SEND_SIGNALING_PCAS_B_INVALIDATE, data) != 0) {
        interpreter_.InvalidateCode();
      }
      if (TS104_GET(NVC5C0_SEND_SIGNALING_PCAS_B_SCHEDULE, data) == 0) return EngineResult::Ok();
      return Launch(now);
    case NVC5C0_LAUNCH_DMA: return StartInline(data, now);
    case NVC5C0_LOAD_INLINE_DATA: return LoadInlineData(data, now);
    case NVC5C0_SET_REPORT_SEMAPHORE_D: return Report(data, now);
    case NVC5C0_NOTIFY: return Notify(data, now);
    default: return Bad(FaultType::kIllegalMethod, method, now);
  }
}

EngineResult GrEngine::LoadInlineQmd(uint32_t index, uint32_t data, uint64_t now) {
  const uint64_t shifted =
      (uint64_t{context_.words[kInlineQmdUpper]} << 32) | context_.words[kInlineQmdLower];
  const uint64_t va = (shifted << 8) + uint64_t{index} * 4;
  if (auto fault = machine_.mmu.WriteValue(owner_->space, va, data)) {
    return MmuFaultResult(*fault, kClientFrontEnd, now);
  }
  return EngineResult::Ok();
}

EngineResult GrEngine::StartInline(uint32_t data, uint64_t now) {
  // Block-linear destinations have no methods on TS104.
  if (TS104_GET(NVC5C0_LAUNCH_DMA_DST_MEMORY_LAYOUT, data) !=
      NVC5C0_LAUNCH_DMA_DST_MEMORY_LAYOUT_PITCH) {
    return Bad(FaultType::kIllegalMethod, NVC5C0_LAUNCH_DMA, now);
  }
  context_.words[kInlineLaunch] = data;
  context_.words[kInlineLine] = 0;
  context_.words[kInlineByte] = 0;
  context_.words[kInlineActive] = 1;
  if (context_.words[kLineLengthIn] == 0 || context_.words[kInlineLineCount] == 0) {
    return FinishInline(now);
  }
  return EngineResult::Ok();
}

EngineResult GrEngine::LoadInlineData(uint32_t data, uint64_t now) {
  ClassWords& words = context_.words;
  if (words[kInlineActive] == 0) {
    return Bad(FaultType::kIllegalMethod, NVC5C0_LOAD_INLINE_DATA, now);
  }
  const uint64_t base = Address(kOffsetOutUpper, 0x1ffff);
  const auto pitch = static_cast<int32_t>(words[kInlinePitchOut]);
  auto bytes = std::as_bytes(std::span(&data, 1));
  while (!bytes.empty()) {
    const uint64_t left = words[kLineLengthIn] - words[kInlineByte];
    const auto part = bytes.first(std::min<uint64_t>(left, bytes.size()));
    const uint64_t va =
        base + static_cast<uint64_t>(int64_t{pitch} * words[kInlineLine]) + words[kInlineByte];
    if (auto fault = machine_.mmu.Write(TlbClient::kHub, owner_->space, va, part)) {
      words[kInlineActive] = 0;
      return MmuFaultResult(*fault, kClientFrontEnd, now);
    }
    bytes = bytes.subspan(part.size());
    words[kInlineByte] += static_cast<uint32_t>(part.size());
    if (words[kInlineByte] < words[kLineLengthIn]) continue;
    words[kInlineByte] = 0;
    if (++words[kInlineLine] >= words[kInlineLineCount]) return FinishInline(now);
  }
  return EngineResult::Ok();
}

EngineResult GrEngine::FinishInline(uint64_t now) {
  const uint32_t launch = context_.words[kInlineLaunch];
  context_.words[kInlineActive] = 0;
  if (TS104_GET(NVC5C0_LAUNCH_DMA_COMPLETION_TYPE, launch) ==
      NVC5C0_LAUNCH_DMA_COMPLETION_TYPE_RELEASE_SEMAPHORE) {
    SemaphoreRelease release;
    release.va = Address(kInlineSemaphoreUpper, 0xff);
    release.payload = context_.words[kInlineSemaphorePayload];
    release.timestamp = TS104_GET(NVC5C0_LAUNCH_DMA_SEMAPHORE_STRUCT_SIZE, launch) ==
                        NVC5C0_LAUNCH_DMA_SEMAPHORE_STRUCT_SIZE_FOUR_WORDS;
    if (TS104_GET(NVC5C0_LAUNCH_DMA_REDUCTION_ENABLE, launch) != 0) {
      release.reduction =
          Reduction{ComputeReduceOp(TS104_GET(NVC5C0_LAUNCH_DMA_REDUCTION_OP, launch)),
                    TS104_GET(NVC5C0_LAUNCH_DMA_REDUCTION_FORMAT, launch) == 1};
    }
    if (release.va % (release.timestamp ? 16 : 4) != 0) {
      return Bad(FaultType::kIllegalMethod, NVC5C0_LAUNCH_DMA, now);
    }
    if (auto fault = ReleaseSemaphore(machine_.mmu, owner_->space, release, now)) {
      return MmuFaultResult(*fault, kClientFrontEnd, now);
    }
    ++machine_.semaphore_releases;
  }
  if (TS104_GET(NVC5C0_LAUNCH_DMA_INTERRUPT_TYPE, launch) != 0) RaiseNonStall();
  return EngineResult::Ok();
}

EngineResult GrEngine::Report(uint32_t data, uint64_t now) {
  const uint32_t operation = TS104_GET(NVC5C0_SET_REPORT_SEMAPHORE_D_OPERATION, data);
  SemaphoreRelease release;
  release.va = Address(kReportUpper, 0xff);
  release.payload = context_.words[kReportPayload];
  release.timestamp = TS104_GET(NVC5C0_SET_REPORT_SEMAPHORE_D_STRUCTURE_SIZE, data) ==
                      NVC5C0_SET_REPORT_SEMAPHORE_D_STRUCTURE_SIZE_FOUR_WORDS;
  if (TS104_GET(NVC5C0_SET_REPORT_SEMAPHORE_D_REDUCTION_ENABLE, data) != 0) {
    release.reduction =
        Reduction{ComputeReduceOp(TS104_GET(NVC5C0_SET_REPORT_SEMAPHORE_D_REDUCTION_OP, data)),
                  TS104_GET(NVC5C0_SET_REPORT_SEMAPHORE_D_REDUCTION_FORMAT, data) == 1};
  }
  if (operation != NVC5C0_SET_REPORT_SEMAPHORE_D_OPERATION_RELEASE ||
      release.va % (release.timestamp ? 16 : 4) != 0) {
    return Bad(FaultType::kIllegalMethod, NVC5C0_SET_REPORT_SEMAPHORE_D, now);
  }
  if (auto fault = ReleaseSemaphore(machine_.mmu, owner_->space, release, now)) {
    return MmuFaultResult(*fault, kClientFrontEnd, now);
  }
  ++machine_.semaphore_releases;
  if (TS104_GET(NVC5C0_SET_REPORT_SEMAPHORE_D_AWAKEN_ENABLE, data) != 0) RaiseNonStall();
  return EngineResult::Ok();
}

// 16 bytes: time, then 0 for "done"; data 1 also interrupts.
EngineResult GrEngine::Notify(uint32_t data, uint64_t now) {
  const std::array<uint64_t, 2> notification = {now, 0};
  if (auto fault =
          machine_.mmu.WriteValue(owner_->space, Address(kNotifyUpper, 0xff), notification)) {
    return MmuFaultResult(*fault, kClientFrontEnd, now);
  }
  if (data == 1) RaiseNonStall();
  return EngineResult::Ok();
}

void GrEngine::RaiseNonStall() {
  const std::lock_guard lock(machine_.state.mutex);
  machine_.state.RaiseVector(owner_->gfid, info().pmc_bit);
}

}  // namespace ts104
