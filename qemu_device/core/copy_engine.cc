// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "copy_engine.h"

#include <algorithm>
#include <cstring>

namespace ts104 {
namespace {

// Engine words. The order is the saved form.
enum Word : uint32_t {
  kSemaphoreUpper,
  kSemaphoreLower,
  kSemaphorePayload,
  kRenderUpper,
  kRenderLower,
  kRenderMode,
  kSourcePhysical,
  kDestinationPhysical,
  kLaunchWord,
  kInUpper,
  kInLower,
  kOutUpper,
  kOutLower,
  kPitchIn,
  kPitchOut,
  kLineLength,
  kLineCount,
  kConstantA,
  kConstantB,
  kComponents,
  kDstBlock,
  kDstWidth,
  kDstHeight,
  kDstDepth,
  kDstLayer,
  kDstX,
  kDstY,
  kSrcBlock,
  kSrcWidth,
  kSrcHeight,
  kSrcDepth,
  kSrcLayer,
  kSrcX,
  kSrcY,
  kPhase,  // a Phase
  kLine,   // of the copy at hand: next line, next element in it
  kElement,
  kWordCount,
};
static_assert(kWordCount <= kGrSavedGridWord);

enum Phase : uint32_t { kIdle, kCopying, kFinishing };

// SET_RENDER_ENABLE_C has been written; before that copies are done.
constexpr uint32_t kRenderModeSet = 1u << 31;

constexpr uint32_t kIgnored = ~0u;
constexpr uint32_t kUnknown = ~0u - 1;

uint32_t WordOf(uint32_t method) {
  switch (method) {
    case NVC5B5_NOP:
    case NVC5B5_PM_TRIGGER:
    case NVC5B5_PM_TRIGGER_END: return kIgnored;
    case NVC5B5_SET_SEMAPHORE_A: return kSemaphoreUpper;
    case NVC5B5_SET_SEMAPHORE_B: return kSemaphoreLower;
    case NVC5B5_SET_SEMAPHORE_PAYLOAD: return kSemaphorePayload;
    case NVC5B5_SET_RENDER_ENABLE_A: return kRenderUpper;
    case NVC5B5_SET_RENDER_ENABLE_B: return kRenderLower;
    case NVC5B5_SET_RENDER_ENABLE_C: return kRenderMode;
    case NVC5B5_SET_SRC_PHYS_MODE: return kSourcePhysical;
    case NVC5B5_SET_DST_PHYS_MODE: return kDestinationPhysical;
    case NVC5B5_LAUNCH_DMA: return kLaunchWord;
    case NVC5B5_OFFSET_IN_UPPER: return kInUpper;
    case NVC5B5_OFFSET_IN_LOWER: return kInLower;
    case NVC5B5_OFFSET_OUT_UPPER: return kOutUpper;
    case NVC5B5_OFFSET_OUT_LOWER: return kOutLower;
    case NVC5B5_PITCH_IN: return kPitchIn;
    case NVC5B5_PITCH_OUT: return kPitchOut;
    case NVC5B5_LINE_LENGTH_IN: return kLineLength;
    case NVC5B5_LINE_COUNT: return kLineCount;
    case NVC5B5_SET_REMAP_CONST_A: return kConstantA;
    case NVC5B5_SET_REMAP_CONST_B: return kConstantB;
    case NVC5B5_SET_REMAP_COMPONENTS: return kComponents;
    case NVC5B5_SET_DST_BLOCK_SIZE: return kDstBlock;
    case NVC5B5_SET_DST_WIDTH: return kDstWidth;
    case NVC5B5_SET_DST_HEIGHT: return kDstHeight;
    case NVC5B5_SET_DST_DEPTH: return kDstDepth;
    case NVC5B5_SET_DST_LAYER: return kDstLayer;
    case NVC5B5_DST_ORIGIN_X: return kDstX;
    case NVC5B5_DST_ORIGIN_Y: return kDstY;
    case NVC5B5_SET_SRC_BLOCK_SIZE: return kSrcBlock;
    case NVC5B5_SET_SRC_WIDTH: return kSrcWidth;
    case NVC5B5_SET_SRC_HEIGHT: return kSrcHeight;
    case NVC5B5_SET_SRC_DEPTH: return kSrcDepth;
    case NVC5B5_SET_SRC_LAYER: return kSrcLayer;
    case NVC5B5_SRC_ORIGIN_X: return kSrcX;
    case NVC5B5_SRC_ORIGIN_Y: return kSrcY;
    default: return kUnknown;
  }
}

Remap MakeRemap(uint32_t launch, const EngineWords& words) {
  Remap remap;
  remap.enabled = TS104_GET(NVC5B5_LAUNCH_DMA_REMAP_ENABLE, launch) != 0;
  if (!remap.enabled) return remap;
  const uint32_t value = words[kComponents];
  remap.component_bytes = TS104_GET(NVC5B5_SET_REMAP_COMPONENTS_COMPONENT_SIZE, value) + 1;
  remap.source_components = TS104_GET(NVC5B5_SET_REMAP_COMPONENTS_NUM_SRC_COMPONENTS, value) + 1;
  remap.destination_components =
      TS104_GET(NVC5B5_SET_REMAP_COMPONENTS_NUM_DST_COMPONENTS, value) + 1;
  remap.destination = {static_cast<uint8_t>(TS104_GET(NVC5B5_SET_REMAP_COMPONENTS_DST_X, value)),
                       static_cast<uint8_t>(TS104_GET(NVC5B5_SET_REMAP_COMPONENTS_DST_Y, value)),
                       static_cast<uint8_t>(TS104_GET(NVC5B5_SET_REMAP_COMPONENTS_DST_Z, value)),
                       static_cast<uint8_t>(TS104_GET(NVC5B5_SET_REMAP_COMPONENTS_DST_W, value))};
  remap.constants = {words[kConstantA], words[kConstantB]};
  return remap;
}

}  // namespace

uint64_t CopyEngine::Address(uint32_t upper_word) const {
  return (uint64_t{words_[upper_word] & 0x1ffff} << 32) | words_[upper_word + 1];
}

void CopyEngine::TakeContext(const ChannelContext& channel) {
  owner_ = channel;
  const PhysicalAddress at = channel.inst_block + kEngineWordsOffset;
  if (machine_.memory.ReadValue(at, words_) != BusStatus::kOk) words_ = {};
  words_[kPhase] = kIdle;
}

EngineResult CopyEngine::Method(const ChannelContext& channel, uint32_t method, uint32_t data,
                                uint64_t now) {
  if (busy_) return EngineResult::Busy();
  if (!HoldsContextOf(channel.chid)) {
    if (owner_.has_value()) Save();
    TakeContext(channel);
  }
  if (method == NVC5B5_SET_DST_ORIGIN || method == NVC5B5_SET_SRC_ORIGIN) {
    const uint32_t word = method == NVC5B5_SET_DST_ORIGIN ? kDstX : kSrcX;
    words_[word] = TS104_GET(NVC5B5_SET_DST_ORIGIN_X, data);
    words_[word + 1] = TS104_GET(NVC5B5_SET_DST_ORIGIN_Y, data);
    return EngineResult::Ok();
  }
  const uint32_t word = WordOf(method);
  if (word == kIgnored) return EngineResult::Ok();
  if (word == kUnknown) {
    return EngineResult::HceError(TS104_FIELD(NV_PPBDMA_INTR_1_HCE_ILLEGAL_MTHD));
  }
  words_[word] = word == kRenderMode ? data | kRenderModeSet : data;
  if (word == kLaunchWord) return Launch(now);
  return EngineResult::Ok();
}

std::optional<Reduction> CopyEngine::SemaphoreReduction(bool& valid) const {
  const uint32_t launch = words_[kLaunchWord];
  valid = true;
  if (TS104_GET(NVC5B5_LAUNCH_DMA_SEMAPHORE_REDUCTION_ENABLE, launch) == 0) return std::nullopt;
  const uint32_t code = TS104_GET(NVC5B5_LAUNCH_DMA_SEMAPHORE_REDUCTION, launch);
  Reduction reduction;
  reduction.is_signed = TS104_GET(NVC5B5_LAUNCH_DMA_SEMAPHORE_REDUCTION_SIGN, launch) == 0;
  valid = code <= NVC5B5_LAUNCH_DMA_SEMAPHORE_REDUCTION_DEC ||
          code == NVC5B5_LAUNCH_DMA_SEMAPHORE_REDUCTION_FADD;
  reduction.op = code == NVC5B5_LAUNCH_DMA_SEMAPHORE_REDUCTION_FADD ? ReduceOp::kFloatAdd
                                                                    : static_cast<ReduceOp>(code);
  return reduction;
}

uint32_t CopyEngine::CheckLaunch() const {
  const uint32_t launch = words_[kLaunchWord];
  const uint32_t semaphore = TS104_GET(NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE, launch);
  if (TS104_GET(NVC5B5_LAUNCH_DMA_DATA_TRANSFER_TYPE, launch) == 3 ||
      TS104_GET(NVC5B5_LAUNCH_DMA_INTERRUPT_TYPE, launch) == 3 ||
      semaphore == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_CONDITIONAL_INTR) {
    return NV_CE_LCE_LAUNCHERR_REPORT_VALUE;
  }
  if (semaphore == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_NONE) return 0;
  bool reduction_valid = false;
  (void)SemaphoreReduction(reduction_valid);
  if (!reduction_valid) return NV_CE_LCE_LAUNCHERR_REPORT_OP;
  const bool four_words = semaphore == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_FOUR_WORD;
  if (Address(kSemaphoreUpper) % (four_words ? 16 : 4) != 0) {
    return NV_CE_LCE_LAUNCHERR_REPORT_ALIGNMENT;
  }
  return 0;
}

uint32_t CopyEngine::MakeSurface(bool is_source, CopySurface& surface) const {
  const uint32_t launch = words_[kLaunchWord];
  surface.base = Address(is_source ? kInUpper : kOutUpper);
  surface.pitch = static_cast<int32_t>(words_[is_source ? kPitchIn : kPitchOut]);
  surface.physical = (is_source ? TS104_GET(NVC5B5_LAUNCH_DMA_SRC_TYPE, launch)
                                : TS104_GET(NVC5B5_LAUNCH_DMA_DST_TYPE, launch)) != 0;
  if (surface.physical) {
    const uint32_t target = TS104_GET(NVC5B5_SET_SRC_PHYS_MODE_TARGET,
                                      words_[is_source ? kSourcePhysical : kDestinationPhysical]);
    if (target == 3) return NV_CE_LCE_LAUNCHERR_REPORT_VALUE;
    surface.physical_is_system = target != NVC5B5_SET_SRC_PHYS_MODE_TARGET_LOCAL_FB;
  }
  surface.block_linear = (is_source ? TS104_GET(NVC5B5_LAUNCH_DMA_SRC_MEMORY_LAYOUT, launch)
                                    : TS104_GET(NVC5B5_LAUNCH_DMA_DST_MEMORY_LAYOUT, launch)) ==
                         NVC5B5_LAUNCH_DMA_SRC_MEMORY_LAYOUT_BLOCKLINEAR;
  if (!surface.block_linear) return 0;

  const uint32_t first = is_source ? kSrcBlock : kDstBlock;
  const uint32_t block = words_[first];
  const uint64_t element = is_source ? plan_.remap.source_bytes() : plan_.remap.destination_bytes();
  surface.block_height_log2 = TS104_GET(NVC5B5_SET_DST_BLOCK_SIZE_HEIGHT, block);
  surface.block_depth_log2 = TS104_GET(NVC5B5_SET_DST_BLOCK_SIZE_DEPTH, block);
  surface.width_bytes = words_[first + 1] * element;
  surface.height = words_[first + 2];
  surface.layer = words_[first + 4];
  surface.origin_x_bytes = words_[first + 5] * element;
  surface.origin_y = words_[first + 6];
  // Blocks are one GOB wide and at most 32 GOBs high and deep; GOB_HEIGHT 1 names eight rows.
  if (TS104_GET(NVC5B5_SET_DST_BLOCK_SIZE_WIDTH, block) != 0 || surface.block_height_log2 > 5 ||
      surface.block_depth_log2 > 5 || TS104_GET(NVC5B5_SET_DST_BLOCK_SIZE_GOB_HEIGHT, block) != 1) {
    return NV_CE_LCE_LAUNCHERR_REPORT_CONFIG;
  }
  if (surface.layer >= words_[first + 3]) return NV_CE_LCE_LAUNCHERR_REPORT_LAYER;
  if (surface.origin_x_bytes + plan_.line_elements * element > surface.width_bytes ||
      surface.origin_y + plan_.lines > surface.height) {
    return NV_CE_LCE_LAUNCHERR_REPORT_OUT_OF_BOUNDS;
  }
  return 0;
}

uint32_t CopyEngine::MakePlan() {
  const uint32_t launch = words_[kLaunchWord];
  plan_ = Plan();
  plan_.copies = TS104_GET(NVC5B5_LAUNCH_DMA_DATA_TRANSFER_TYPE, launch) !=
                 NVC5B5_LAUNCH_DMA_DATA_TRANSFER_TYPE_NONE;
  if (const uint32_t error = CheckLaunch(); error != 0) return error;
  if (!plan_.copies) return 0;
  plan_.remap = MakeRemap(launch, words_);
  if (!plan_.remap.IsValid()) return NV_CE_LCE_LAUNCHERR_REPORT_VALUE;
  plan_.line_elements = words_[kLineLength];
  plan_.lines =
      TS104_GET(NVC5B5_LAUNCH_DMA_MULTI_LINE_ENABLE, launch) != 0 ? words_[kLineCount] : 1;
  if (const uint32_t error = MakeSurface(true, plan_.source); error != 0) return error;
  return MakeSurface(false, plan_.destination);
}

std::optional<MmuFault> CopyEngine::RenderEnabled(bool& enabled) {
  enabled = true;
  if ((words_[kRenderMode] & kRenderModeSet) == 0) return std::nullopt;
  const uint32_t mode = TS104_GET(NVC5B5_SET_RENDER_ENABLE_C_MODE, words_[kRenderMode]);
  if (mode == NVC5B5_SET_RENDER_ENABLE_C_MODE_TRUE) return std::nullopt;
  enabled = false;
  if (mode == NVC5B5_SET_RENDER_ENABLE_C_MODE_FALSE) return std::nullopt;
  const uint64_t va = (uint64_t{words_[kRenderUpper] & 0xff} << 32) | words_[kRenderLower];
  uint32_t first = 0;
  if (auto fault = machine_.mmu.ReadValue(owner_->space, va, first)) return fault;
  if (mode == NVC5B5_SET_RENDER_ENABLE_C_MODE_CONDITIONAL) {
    enabled = first != 0;
    return std::nullopt;
  }
  // Compares the words of two four-word semaphores that follow each other.
  uint32_t second = 0;
  if (auto fault = machine_.mmu.ReadValue(owner_->space, va + 16, second)) return fault;
  if (mode == NVC5B5_SET_RENDER_ENABLE_C_MODE_RENDER_IF_EQUAL) enabled = first == second;
  if (mode == NVC5B5_SET_RENDER_ENABLE_C_MODE_RENDER_IF_NOT_EQUAL) enabled = first != second;
  return std::nullopt;
}

EngineResult CopyEngine::LaunchError(uint32_t code, uint64_t now) {
  {
    const std::lock_guard lock(machine_.state.mutex);
    const uint32_t lce = info().instance;
    machine_.state.Set(NV_CE_LCE_LAUNCHERR(lce), code);
    machine_.state.SetBits(NV_CE_LCE_INTR_STATUS(lce),
                           TS104_FIELD(NV_CE_LCE_INTR_STATUS_LAUNCHERR));
    machine_.state.UpdateInterrupts();
  }
  FaultRecord record = MakeFaultRecord(*owner_, info().fault_id, now);
  record.type = FaultType::kCeLaunchError;
  record.va = NVC5B5_LAUNCH_DMA;
  record.client = NV_MMU_FAULT_PACKET_CLIENT_HUB_CE0 + info().instance;
  DropWork();
  return EngineResult::Fault(record);
}

EngineResult CopyEngine::Launch(uint64_t now) {
  const uint32_t launch = words_[kLaunchWord];
  const bool physical = TS104_GET(NVC5B5_LAUNCH_DMA_SRC_TYPE, launch) != 0 ||
                        TS104_GET(NVC5B5_LAUNCH_DMA_DST_TYPE, launch) != 0;
  if (physical && !owner_->hce_privileged) {
    return EngineResult::HceError(TS104_FIELD(NV_PPBDMA_INTR_1_HCE_PRIV));
  }
  if (const uint32_t error = MakePlan(); error != 0) return LaunchError(error, now);
  if (plan_.copies) {
    if (auto fault = RenderEnabled(plan_.copies)) {
      return MmuFaultResult(*fault, NV_MMU_FAULT_PACKET_CLIENT_HUB_CE0 + info().instance, now);
    }
  }
  const bool has_bytes = plan_.copies && plan_.lines != 0 && plan_.line_elements != 0;
  words_[kPhase] = has_bytes ? kCopying : kFinishing;
  words_[kLine] = 0;
  words_[kElement] = 0;
  busy_ = true;
  due_ = now + kLaunchNs;
  return EngineResult::Ok();
}

EngineResult CopyEngine::Run(uint64_t now, bool /*leaving*/, uint64_t /*limit*/) {
  if (!busy_) return EngineResult::Done();
  return words_[kPhase] == kCopying ? RunCopy(now) : Finish(now);
}

bool CopyEngine::CanSave(uint64_t now) const {
  // A copy of which only the semaphore is missing ends before its context leaves.
  return !busy_ || (now >= due_ && words_[kPhase] == kCopying);
}

std::optional<MmuFault> CopyEngine::Locate(const CopySurface& surface, uint64_t address,
                                           AccessKind kind, Translation& at) {
  if (!surface.physical) {
    return machine_.mmu.Translate(TlbClient::kHub, owner_->space, address, kind, at);
  }
  at.at = {surface.physical_is_system ? Aperture::kSys : Aperture::kVid, address};
  at.bytes = kPieceBytes;
  at.sparse = false;
  if (!machine_.memory.InRange(at.at, 1)) {
    return MmuFault{FaultType::kRegionViolation, address, kind};
  }
  const uint64_t end =
      surface.physical_is_system ? kSystemAddressLimit : machine_.memory.vram_size();
  at.bytes = std::min(at.bytes, end - address);
  return std::nullopt;
}

std::optional<MmuFault> CopyEngine::CopyRun(uint64_t from, uint64_t to, uint64_t bytes,
                                            uint64_t& done) {
  Translation source;
  Translation target;
  if (auto fault = Locate(plan_.source, from, AccessKind::kRead, source)) return fault;
  if (auto fault = Locate(plan_.destination, to, AccessKind::kWrite, target)) return fault;
  done = std::min({bytes, source.bytes, target.bytes});
  if (target.sparse) return std::nullopt;
  std::byte* host_source = nullptr;
  std::byte* host_target = nullptr;
  if (!source.sparse && source.at.aperture == Aperture::kVid) {
    host_source = machine_.memory.Vram(source.at.offset, done);
  }
  if (target.at.aperture == Aperture::kVid) {
    host_target = machine_.memory.Vram(target.at.offset, done);
  }
  if (host_source != nullptr && host_target != nullptr) {
    CopyForward(host_target, host_source, done);
    return std::nullopt;
  }
  done = std::min<uint64_t>(done, buffer_.size());
  const auto part = std::span(buffer_).first(done);
  if (source.sparse) {
    std::fill(part.begin(), part.end(), std::byte{0});
  } else if (const BusStatus status = machine_.memory.Read(source.at, part);
             status != BusStatus::kOk) {
    return MmuFault{FaultOfBus(status), from, AccessKind::kRead};
  }
  if (const BusStatus status = machine_.memory.Write(target.at, part); status != BusStatus::kOk) {
    return MmuFault{FaultOfBus(status), to, AccessKind::kWrite};
  }
  return std::nullopt;
}

std::optional<MmuFault> CopyEngine::CopyBytes(uint64_t line, uint64_t x, uint64_t bytes) {
  while (bytes != 0) {
    const uint64_t run = std::min({bytes, plan_.source.RunAt(x), plan_.destination.RunAt(x)});
    uint64_t done = 0;
    if (auto fault = CopyRun(plan_.source.AddressOf(line, x), plan_.destination.AddressOf(line, x),
                             run, done)) {
      return fault;
    }
    x += done;
    bytes -= done;
  }
  return std::nullopt;
}

std::optional<MmuFault> CopyEngine::Move(const CopySurface& surface, uint64_t line, uint64_t x,
                                         AccessKind kind, std::span<std::byte> data) {
  while (!data.empty()) {
    Translation at;
    const uint64_t address = surface.AddressOf(line, x);
    if (auto fault = Locate(surface, address, kind, at)) return fault;
    const auto part = data.first(std::min({uint64_t{data.size()}, surface.RunAt(x), at.bytes}));
    BusStatus status = BusStatus::kOk;
    if (kind == AccessKind::kRead && at.sparse) {
      std::fill(part.begin(), part.end(), std::byte{0});
    } else if (kind == AccessKind::kRead) {
      status = machine_.memory.Read(at.at, part);
    } else if (!at.sparse) {
      status = machine_.memory.Write(at.at, part);
    }
    if (status != BusStatus::kOk) return MmuFault{FaultOfBus(status), address, kind};
    x += part.size();
    data = data.subspan(part.size());
  }
  return std::nullopt;
}

std::optional<MmuFault> CopyEngine::CopyElements(uint64_t line, uint64_t first, uint64_t count) {
  const uint64_t source_bytes = plan_.remap.source_bytes();
  const uint64_t target_bytes = plan_.remap.destination_bytes();
  const uint64_t fit = buffer_.size() / std::max(source_bytes, target_bytes);
  target_buffer_.resize(buffer_.size());
  while (count != 0) {
    const uint64_t part = std::min(count, fit);
    const auto from = std::span(buffer_).first(part * source_bytes);
    const auto to = std::span(target_buffer_).first(part * target_bytes);
    if (auto fault = Move(plan_.source, line, first * source_bytes, AccessKind::kRead, from)) {
      return fault;
    }
    if (plan_.remap.HasHoles()) {
      if (auto fault = Move(plan_.destination, line, first * target_bytes, AccessKind::kRead, to)) {
        return fault;
      }
    }
    plan_.remap.Apply(from, to, part);
    if (auto fault = Move(plan_.destination, line, first * target_bytes, AccessKind::kWrite, to)) {
      return fault;
    }
    first += part;
    count -= part;
  }
  return std::nullopt;
}

EngineResult CopyEngine::RunCopy(uint64_t now) {
  const uint64_t element_bytes =
      std::max(plan_.remap.source_bytes(), plan_.remap.destination_bytes());
  uint64_t bytes = 0;
  uint32_t lines = 0;
  while (words_[kLine] < plan_.lines && bytes + element_bytes <= kPieceBytes &&
         lines < kPieceLines) {
    const uint64_t count = std::min<uint64_t>(plan_.line_elements - words_[kElement],
                                              (kPieceBytes - bytes) / element_bytes);
    const auto fault = plan_.remap.enabled ? CopyElements(words_[kLine], words_[kElement], count)
                                           : CopyBytes(words_[kLine], words_[kElement], count);
    if (fault.has_value()) {
      DropWork();
      return MmuFaultResult(*fault, NV_MMU_FAULT_PACKET_CLIENT_HUB_CE0 + info().instance, now);
    }
    bytes += count * element_bytes;
    words_[kElement] += static_cast<uint32_t>(count);
    if (words_[kElement] == plan_.line_elements) {
      words_[kElement] = 0;
      ++words_[kLine];
      ++lines;
    }
  }
  if (words_[kLine] >= plan_.lines) words_[kPhase] = kFinishing;
  due_ = now + machine_.CyclesToNs((bytes + kBytesPerCycle - 1) / kBytesPerCycle);
  return EngineResult::Ok();
}

EngineResult CopyEngine::Finish(uint64_t now) {
  const uint32_t launch = words_[kLaunchWord];
  const uint32_t type = TS104_GET(NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE, launch);
  DropWork();
  if (type != NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_NONE) {
    bool valid = false;
    SemaphoreRelease release;
    release.va = Address(kSemaphoreUpper);
    release.payload = words_[kSemaphorePayload];
    release.timestamp = type == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_FOUR_WORD;
    release.reduction = SemaphoreReduction(valid);
    if (auto fault = ReleaseSemaphore(machine_.mmu, owner_->space, release, now)) {
      return MmuFaultResult(*fault, NV_MMU_FAULT_PACKET_CLIENT_HUB_CE0 + info().instance, now);
    }
    ++machine_.semaphore_releases;
  }
  const uint32_t interrupt = TS104_GET(NVC5B5_LAUNCH_DMA_INTERRUPT_TYPE, launch);
  if (interrupt != NVC5B5_LAUNCH_DMA_INTERRUPT_TYPE_NONE) {
    const std::lock_guard lock(machine_.state.mutex);
    const uint32_t bit = interrupt == NVC5B5_LAUNCH_DMA_INTERRUPT_TYPE_BLOCKING
                             ? TS104_FIELD(NV_CE_LCE_INTR_STATUS_BLOCKPIPE)
                             : TS104_FIELD(NV_CE_LCE_INTR_STATUS_NONBLOCKPIPE);
    machine_.state.SetBits(NV_CE_LCE_INTR_STATUS(info().instance), bit);
    machine_.state.RaiseVector(owner_->gfid, info().pmc_bit);
  }
  return EngineResult::Done();
}

EngineResult CopyEngine::Resume(const ChannelContext& channel, const EngineWords& words,
                                uint64_t now) {
  const uint32_t phase = words[kPhase];
  if (phase == kIdle || busy_) return EngineResult::Ok();
  owner_ = channel;
  words_ = words;
  // The words come from memory that software can write: judge them as at launch.
  const uint32_t launch = words_[kLaunchWord];
  const bool physical = TS104_GET(NVC5B5_LAUNCH_DMA_SRC_TYPE, launch) != 0 ||
                        TS104_GET(NVC5B5_LAUNCH_DMA_DST_TYPE, launch) != 0;
  bool valid = phase <= kFinishing && (!physical || channel.hce_privileged) && MakePlan() == 0;
  if (phase == kCopying) {
    valid = valid && plan_.copies && words_[kElement] < plan_.line_elements &&
            words_[kLine] < plan_.lines;
  }
  if (!valid) {
    DropWork();
    FaultRecord record = MakeFaultRecord(channel, info().fault_id, now);
    record.type = FaultType::kBadContext;
    record.client = NV_MMU_FAULT_PACKET_CLIENT_HUB_CE0 + info().instance;
    return EngineResult::Fault(record);
  }
  busy_ = true;
  due_ = now;
  return EngineResult::Ok();
}

bool CopyEngine::Save() {
  if (!owner_.has_value()) return false;
  const bool unfinished = busy_;
  // The last word is the GR engine's. A block that has gone away cannot be saved to: the channel
  // finds out when it is loaded.
  const auto own = std::span<const uint32_t>(words_).first(kGrSavedGridWord);
  (void)machine_.memory.Write(owner_->inst_block + kEngineWordsOffset, std::as_bytes(own));
  busy_ = false;
  owner_.reset();
  return unfinished;
}

void CopyEngine::DropWork() {
  busy_ = false;
  words_[kPhase] = kIdle;
}

}  // namespace ts104
