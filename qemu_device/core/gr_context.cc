// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Layout of the buffer (bytes; *TS104*, private to it but for 0x80, 0x84 and 0xfc):
//   0x00 version  0x04 flags (1: a grid is saved)  0x08 u64 bytes of the grid
//   0x10 two releases of 24 bytes: u64 address, u32 payload, u32 flags, u32 operation, u32 0
//   0x40 last stop: u32 exception, u32 fault type, u64 code, u64 address, u64 pc
//   0x80 GRAPHICS_PREEMPTION_OPTIONS  0x84 COMPUTE_PREEMPTION_OPTIONS  0xfc magic
//   0x100 class words  0x1000 grid
#include "gr_context.h"

#include <cstring>

#include "sm/grid_executor.h"

namespace ts104 {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kFlagGrid = 1;
constexpr uint32_t kMagic = 0x600dc0de;
constexpr uint64_t kMagicOffset = 0xfc;
constexpr uint64_t kWordsOffset = 0x100;
constexpr uint32_t kMaxReductionOp = 7;

struct SavedRelease {
  uint64_t address;
  uint32_t payload;
  uint32_t flags;  // 1 enabled, 2 one word, 4 reduction, 8 signed
  uint32_t operation;
  uint32_t reserved;
};
static_assert(sizeof(SavedRelease) == 24);

// The part that the model writes; what follows until kMagicOffset belongs to software.
struct Header {
  uint32_t version;
  uint32_t flags;
  uint64_t grid_bytes;
  std::array<SavedRelease, 2> releases;
  uint32_t stop_exception;
  uint32_t stop_fault_type;
  uint64_t stop_code;
  uint64_t stop_address;
  uint64_t stop_pc;
};
static_assert(sizeof(Header) == 0x60);

struct FirstPage {
  Header header;
  std::array<std::byte, 0x80 - sizeof(Header)> reserved;
  uint32_t graphics_options;
  uint32_t compute_options;
  std::array<std::byte, kMagicOffset - 0x88> other;
  uint32_t magic;
  ClassWords words;
};
static_assert(sizeof(FirstPage) == kWordsOffset + sizeof(ClassWords));

SavedRelease Pack(const compute::SemaphoreRelease& release) {
  return {release.address, release.payload,
          uint32_t{release.enabled} | uint32_t{release.one_word} << 1 |
              uint32_t{release.reduction} << 2 | uint32_t{release.reduction_signed} << 3,
          release.reduction_op, 0};
}

bool Unpack(const SavedRelease& saved, compute::SemaphoreRelease& release) {
  release.address = saved.address;
  release.payload = saved.payload;
  release.enabled = (saved.flags & 1) != 0;
  release.one_word = (saved.flags & 2) != 0;
  release.reduction = (saved.flags & 4) != 0;
  release.reduction_signed = (saved.flags & 8) != 0;
  release.reduction_op = saved.operation;
  return saved.flags <= 15 && saved.operation <= kMaxReductionOp &&
         release.address % (release.one_word ? 4 : 16) == 0;
}

}  // namespace

uint64_t GrContextBuffer::Bytes(uint32_t sms) {
  return kGridOffset + ((sm::GridExecutor::MaxStateSize(sms) + 0xfff) & ~uint64_t{0xfff});
}

std::optional<GrContextBuffer::Location> GrContextBuffer::Locate(bool& is_null) const {
  const uint32_t lo = channel_.context_pointer_lo;
  const uint32_t hi = channel_.context_pointer_hi;
  Location at;
  at.address = (uint64_t{TS104_GET(NV_RAMIN_ENGINE_WFI_PTR_HI_PTR_HI, hi)} << 32) |
               (lo & TS104_FIELD(NV_RAMIN_ENGINE_WFI_PTR_PTR_LO));
  at.is_virtual =
      TS104_GET(NV_RAMIN_ENGINE_WFI_PTR_MODE, lo) == NV_RAMIN_ENGINE_WFI_PTR_MODE_VIRTUAL;
  is_null = at.address == 0;
  if (is_null) return std::nullopt;
  const bool physical_vid =
      TS104_GET(NV_RAMIN_ENGINE_WFI_PTR_TARGET, lo) == NV_RAMIN_ENGINE_WFI_PTR_TARGET_VID;
  if (!at.is_virtual && !physical_vid) return std::nullopt;
  return at;
}

bool GrContextBuffer::Read(const Location& at, uint64_t offset, std::span<std::byte> data) {
  const uint64_t address = at.address + offset;
  if (at.is_virtual) {
    const auto fault = machine_.mmu.Read(TlbClient::kHub, channel_.space, address, data);
    if (fault.has_value()) fault_ = *fault;
    return !fault.has_value();
  }
  const PhysicalAddress where = {Aperture::kVid, address};
  machine_.memory.ReportInRange(channel_.gfid, where, data.size());
  const BusStatus status = machine_.memory.Read(where, data);
  if (status != BusStatus::kOk) fault_ = {FaultOfBus(status), address, AccessKind::kRead};
  return status == BusStatus::kOk;
}

bool GrContextBuffer::Write(const Location& at, uint64_t offset, std::span<const std::byte> data) {
  const uint64_t address = at.address + offset;
  if (at.is_virtual) {
    const auto fault = machine_.mmu.Write(TlbClient::kHub, channel_.space, address, data);
    if (fault.has_value()) fault_ = *fault;
    return !fault.has_value();
  }
  const PhysicalAddress where = {Aperture::kVid, address};
  machine_.memory.ReportInRange(channel_.gfid, where, data.size());
  const BusStatus status = machine_.memory.Write(where, data);
  if (status != BusStatus::kOk) fault_ = {FaultOfBus(status), address, AccessKind::kWrite};
  return status == BusStatus::kOk;
}

GrContextBuffer::LoadError GrContextBuffer::Load(GrContext& context) {
  context = GrContext();
  bool is_null = false;
  const auto at = Locate(is_null);
  if (!at.has_value()) return is_null ? LoadError::kNoContext : LoadError::kBadContext;
  FirstPage page;
  if (!Read(*at, 0, std::as_writable_bytes(std::span(&page, 1)))) return LoadError::kFault;
  if (page.magic != kMagic) return LoadError::kNone;
  const uint32_t control = page.compute_options & 3;
  if (control > static_cast<uint32_t>(PreemptionMode::kCilp)) return LoadError::kBadContext;
  context.mode = static_cast<PreemptionMode>(control);
  // Version 0: software has set options but the engine has never saved here.
  const Header& header = page.header;
  if (header.version == 0) return LoadError::kNone;
  const uint64_t max_grid = sm::GridExecutor::MaxStateSize(machine_.state.config().sms);
  if (header.version != kVersion || header.flags > kFlagGrid || header.grid_bytes > max_grid) {
    return LoadError::kBadContext;
  }
  context.words = page.words;
  if ((header.flags & kFlagGrid) == 0) return LoadError::kNone;
  for (size_t i = 0; i < context.releases.size(); ++i) {
    if (!Unpack(header.releases[i], context.releases[i])) return LoadError::kBadContext;
  }
  context.grid.resize(header.grid_bytes);
  if (!Read(*at, kGridOffset, context.grid)) return LoadError::kFault;
  return context.grid.empty() ? LoadError::kBadContext : LoadError::kNone;
}

bool GrContextBuffer::Save(const GrContext& context) {
  bool is_null = false;
  const auto at = Locate(is_null);
  if (!at.has_value()) return true;  // a channel without a context has nothing to save
  Header header{};
  header.version = kVersion;
  header.flags = context.grid.empty() ? 0 : kFlagGrid;
  header.grid_bytes = context.grid.size();
  for (size_t i = 0; i < header.releases.size(); ++i) {
    header.releases[i] = Pack(context.releases[i]);
  }
  header.stop_exception = static_cast<uint32_t>(context.last_stop.exception);
  header.stop_fault_type = context.last_stop.fault_type;
  header.stop_code = context.last_stop.code;
  header.stop_address = context.last_stop.address;
  header.stop_pc = context.last_stop.pc;
  const uint32_t options = static_cast<uint32_t>(context.mode);
  const uint32_t magic = kMagic;
  return Write(*at, kGridOffset, context.grid) &&
         Write(*at, kWordsOffset, std::as_bytes(std::span(context.words))) &&
         Write(*at, 0, std::as_bytes(std::span(&header, 1))) &&
         Write(*at, 0x84, std::as_bytes(std::span(&options, 1))) &&
         Write(*at, kMagicOffset, std::as_bytes(std::span(&magic, 1)));
}

}  // namespace ts104
