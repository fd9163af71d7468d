// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "gr_memory.h"

namespace ts104 {
namespace {

AccessKind KindOf(sm::Access access) {
  switch (access) {
    case sm::Access::kWrite: return AccessKind::kWrite;
    case sm::Access::kAtomic: return AccessKind::kAtomic;
    default: return AccessKind::kRead;
  }
}

}  // namespace

uint64_t GrMemory::ContextId() const {
  // Page directories are 4 KiB aligned: the low bits are free.
  return space_.page_directory.offset | static_cast<uint64_t>(space_.page_directory.aperture) |
         uint64_t{space_.privileged} << 1 | uint64_t{space_.valid} << 2;
}

sm::Translation GrMemory::Translate(uint64_t va, sm::Access access) {
  Translation at;
  if (const auto fault = machine_.mmu.Translate(TlbClient::kGpc, space_, va, KindOf(access), at)) {
    return sm::Translation::Fault(static_cast<uint8_t>(fault->type));
  }
  if (at.sparse || at.at.aperture != Aperture::kVid) return sm::Translation::Slow();
  std::byte* page = machine_.memory.Vram(at.at.offset & ~sm::kPageMask, sm::kPageSize);
  if (page == nullptr) {
    return sm::Translation::Fault(static_cast<uint8_t>(FaultType::kRegionViolation));
  }
  return sm::Translation::Page(page);
}

bool GrMemory::ReadSlow(uint64_t va, std::span<std::byte> data) {
  return !machine_.mmu.Read(TlbClient::kGpc, space_, va, data).has_value();
}

bool GrMemory::WriteSlow(uint64_t va, std::span<const std::byte> data) {
  return !machine_.mmu.Write(TlbClient::kGpc, space_, va, data).has_value();
}

}  // namespace ts104
