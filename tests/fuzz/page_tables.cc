// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Page tables: random, cyclic, overlapping, of mixed sizes, pointing everywhere, changing while
// they are read. Beside the checks of every step, the shadow is compared with the guest's own
// tables: two walks by the model's code must end at the same byte, or in the same fault.
#include <cstring>
#include <utility>

#include "fuzz/entry.h"
#include "fuzz/hostile.h"
#include "qemu_device/core/page_walk.h"
#include "ts104/regs.h"

namespace fuzz {

namespace {

constexpr uint64_t kPage = TS_PAGE_SIZE;
constexpr uint32_t kRunlist = 1;
constexpr uint32_t kAllocations = 3000;  // then host memory is short: cycles end there

// A page of one of the pools, or an address anywhere.
struct Place {
  bool system = false;
  uint64_t address = 0;
};

Place PlaceOf(Input& input) {
  const uint8_t choice = input.U8();
  const uint64_t page = choice % Hostile::kPoolPages * kPage;
  switch (choice / Hostile::kPoolPages) {
    case 0:
    case 1: return {false, Hostile::kPool + page};
    case 2: return {true, Hostile::kSysPool + page};
    default: return {(choice & 1) != 0, input.Value() & ~(kPage - 1)};
  }
}

// Field ADDRESS of PDEs and PTEs; system memory has one of two apertures.
uint64_t Address(const Place& place, uint64_t system_aperture) {
  const uint64_t address = place.address >> 12 << 8;
  return place.system ? address | system_aperture << 1 : (address & 0x1ffffff00) | 1u << 1;
}

uint64_t PdeOf(const Place& place) { return Address(place, 2); }

// VALID, and the flags and kinds that exist or not.
uint64_t PteOf(const Place& place, uint8_t flags) {
  uint64_t pte = 1;
  const uint64_t address = place.address >> 12 << 8;
  pte |= place.system ? address | 2u << 1 : address & 0x1ffffff00;
  pte |= uint64_t{flags & 0xe8u};                                // VOL, PRIVILEGE, RO, ATOMIC
  if ((flags & 7) == 7) pte |= uint64_t{flags >> 4 & 7u} << 56;  // KIND
  if ((flags & 7) == 6) pte |= 1u << 1;                          // PEER, or another system one
  return pte;
}

uint64_t Entry(Input& input) {
  switch (input.Below(5)) {
    case 0: return PdeOf(PlaceOf(input));
    case 1: {
      const Place place = PlaceOf(input);
      return PteOf(place, input.U8());
    }
    case 2: return input.Below(64);  // invalid, sparse, no small page
    case 3: return PdeOf(PlaceOf(input)) | uint64_t{input.U8() & 0xfu} << 4;
    default: return input.Value();
  }
}

// Where pages are dense: the first few entries of every level.
uint64_t Va(Input& input) {
  const uint16_t bits = input.U16();
  return uint64_t{bits & 3u} << 47 | uint64_t{bits >> 2 & 3u} << 38 |
         uint64_t{bits >> 4 & 3u} << 29 | uint64_t{bits >> 6 & 3u} << 21 |
         uint64_t{bits >> 8 & 1u} << 16 | uint64_t{bits >> 9 & 0x7fu} << 12;
}

void WriteEntries(Hostile& hostile, Input& input) {
  const Place table = PlaceOf(input);
  const uint64_t first = input.OneIn(2) ? input.Below(8) : input.Below(512);
  uint64_t entry = Entry(input);
  const uint8_t shape = input.U8();
  const uint32_t count = (shape & 3) == 3 ? shape >> 2 : 1;
  for (uint32_t i = 0; i < count && first + i < 512; ++i) {
    hostile.Store64(table.system, table.address + (first + i) * 8, entry);
    if ((shape & 4) != 0) entry += kPage >> 12 << 8;
  }
}

void SetRoot(Hostile& hostile, Input& input, uint32_t channel) {
  const uint64_t at = rig::RawGuest::kInstance + channel * kPage + NV_RAMIN_PAGE_DIR_BASE;
  const Place root = PlaceOf(input);
  const uint32_t target = root.system ? 2 : 0;
  hostile.Store32(false, at, static_cast<uint32_t>(root.address) | 0xc00 | target);
  hostile.Store32(false, at + 4, static_cast<uint32_t>(root.address >> 32));
}

void Invalidate(Hostile& hostile, Input& input) {
  const uint32_t flags = input.U8();
  if ((flags & 0x40) != 0) {
    const Place root = PlaceOf(input);
    hostile.Write(NV_PFB_PRI_MMU_INVALIDATE_PDB,
                  static_cast<uint32_t>(root.address >> 12 << 4) | (root.system ? 2 : 0));
    hostile.Write(NV_PFB_PRI_MMU_INVALIDATE_UPPER_PDB, static_cast<uint32_t>(root.address >> 40));
  }
  if ((flags & 0x80) != 0) {
    const uint64_t va = Va(input);
    hostile.Write(NV_PFB_PRI_MMU_INVALIDATE_VADDR, static_cast<uint32_t>(va >> 12) << 4);
    hostile.Write(NV_PFB_PRI_MMU_INVALIDATE_UPPER_VADDR, static_cast<uint32_t>(va >> 40));
    hostile.Write(NV_PFB_PRI_MMU_INVALIDATE_SIZE, input.U8());
  }
  hostile.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | flags);
}

// Two views of memory for the model's own walk.
class Walks {
 public:
  Walks(Hostile& hostile, uint32_t channel)
      : hostile_(hostile),
        guest_ops_(ReadOnly(ReadGuest)),
        device_ops_(ReadOnly(ReadDevice)),
        guest_({reinterpret_cast<std::byte*>(hostile.machine().vram()),
                hostile.machine().vram_bytes()},
               guest_ops_, &hostile),
        device_({reinterpret_cast<std::byte*>(hostile.gpu().vram()), hostile.gpu().vram_bytes()},
                device_ops_, &hostile) {
    guest_.set_bus_master(true);
    device_.set_bus_master(true);
    constexpr uint32_t kBind = TS104_FIELD(NV_PCCSR_CHANNEL_INST_BIND);
    const uint32_t shadow_inst =
        hostile.gpu().Read32(NV_PCCSR_CHANNEL_INST(hostile.first_channel() + channel));
    const uint64_t instance = uint64_t{shadow_inst & 0xfffffff} << 12;
    const uint32_t inst = hostile.Read(NV_PCCSR_CHANNEL_INST(channel));
    const uint64_t block = uint64_t{inst & 0xfffffff} << 12;
    bound_ = (shadow_inst & inst & kBind) != 0 &&
             RootAt(hostile.gpu().Translate(instance, kPage), &shadow_root_);
    bound_ = bound_ && block + kPage <= hostile.machine().vram_bytes() &&
             RootAt(hostile.machine().vram() + block, &guest_root_);
  }

  // Whether there is a shadow to look at.
  bool bound() const { return bound_; }

  void Compare(uint64_t va) {
    const ts104::WalkResult guest = ts104::WalkPageTables(guest_, guest_root_, va);
    const ts104::WalkResult shadow = ts104::WalkPageTables(device_, shadow_root_, va);
    const std::string where = "at address " + std::to_string(va) + ", fault " +
                              std::to_string(static_cast<int>(guest.fault)) + " and " +
                              std::to_string(static_cast<int>(shadow.fault));
    if (!guest.ok) {
      FUZZ_CHECK(!shadow.ok, where);
      // Unreadable tables are tables of invalid entries, and PD0 has no invalid large page.
      const bool absent =
          guest.fault == ts104::FaultType::kPde || guest.fault == ts104::FaultType::kPte;
      const bool same = guest.fault == shadow.fault;
      const bool shadow_absent =
          shadow.fault == ts104::FaultType::kPde || shadow.fault == ts104::FaultType::kPte;
      FUZZ_CHECK(same || (absent && shadow_absent), where);
      return;
    }
    const uint64_t guest_at = guest.page.base.offset + (va & (guest.page.size() - 1));
    const bool system = guest.page.base.aperture == ts104::Aperture::kSys;
    // What was pinned when it could be stays pinned.
    const ts_host_vgpu& host = hostile_.machine().host();
    if (!guest.page.sparse && system && !Pinnable(guest_at) &&
        host.pinned.count(guest_at / kPage) == 0) {
      FUZZ_CHECK(!shadow.ok && shadow.fault == ts104::FaultType::kUnsupportedAperture, where);
      return;
    }
    // At the limit of pins it depends on the order of entries who has one.
    if (!guest.page.sparse && system && host.pinned.size() >= host.max_pinned && !shadow.ok) {
      FUZZ_CHECK(shadow.fault == ts104::FaultType::kUnsupportedAperture, where);
      return;
    }
    FUZZ_CHECK(shadow.ok && shadow.page.sparse == guest.page.sparse, where);
    if (guest.page.sparse) return;
    FUZZ_CHECK(shadow.page.base.aperture == guest.page.base.aperture, where);
    FUZZ_CHECK(shadow.page.privileged == guest.page.privileged, where);
    FUZZ_CHECK(shadow.page.read_only == guest.page.read_only, where);
    FUZZ_CHECK(shadow.page.atomic_disable == guest.page.atomic_disable, where);
    const uint64_t shadow_at = shadow.page.base.offset + (va & (shadow.page.size() - 1));
    const uint64_t expected =
        system
            ? hostile_.machine().host().DmaOf(guest_at / kPage) + guest_at % kPage
            : static_cast<uint64_t>(hostile_.machine().vram() - hostile_.gpu().vram()) + guest_at;
    FUZZ_CHECK(shadow_at == expected, where);
  }

 private:
  static ts104_host_ops ReadOnly(int (*read)(void*, uint64_t, void*, uint64_t)) {
    ts104_host_ops ops = {};
    ops.dma_read = read;
    return ops;
  }
  static bool RootAt(const uint8_t* block, ts104::PhysicalAddress* root) {
    if (block == nullptr) return false;
    uint32_t words[2];
    std::memcpy(words, block + NV_RAMIN_PAGE_DIR_BASE, sizeof(words));
    if ((words[0] & 3) == 1 || (words[0] & 0xc00) != 0xc00) return false;
    root->aperture = (words[0] & 3) == 0 ? ts104::Aperture::kVid : ts104::Aperture::kSys;
    root->offset = uint64_t{words[1]} << 32 | (words[0] & 0xfffff000);
    return true;
  }
  static int ReadGuest(void* self, uint64_t address, void* buffer, uint64_t length) {
    auto& memory = static_cast<Hostile*>(self)->machine().host().memory;
    if (address > memory.size() || length > memory.size() - address) return -1;
    std::memcpy(buffer, memory.data() + address, length);
    return 0;
  }
  static int ReadDevice(void* self, uint64_t address, void* buffer, uint64_t length) {
    const uint8_t* memory = static_cast<Hostile*>(self)->gpu().Translate(address, length);
    if (memory == nullptr) return -1;
    std::memcpy(buffer, memory, length);
    return 0;
  }
  bool Pinnable(uint64_t gpa) const {
    const ts_host_vgpu& host = hostile_.machine().host();
    return gpa < host.memory.size() && host.unpinnable.count(gpa / kPage) == 0;
  }

  Hostile& hostile_;
  const ts104_host_ops guest_ops_;
  const ts104_host_ops device_ops_;
  ts104::MemoryPort guest_;
  ts104::MemoryPort device_;
  ts104::PhysicalAddress guest_root_;
  ts104::PhysicalAddress shadow_root_;
  bool bound_ = false;
};

// After an invalidate of everything that nothing disturbed, and that no limit cut short.
void CompareShadow(Hostile& hostile, Input& input, uint32_t channel) {
  ts_host_gpu& gpu = hostile.gpu();
  const auto on_copy = std::exchange(gpu.on_copy, nullptr);
  hostile.Write(NV_PCCSR_CHANNEL(channel), 1u << 11);
  hostile.Advance(200'000);
  hostile.Write(NV_PCCSR_CHANNEL(channel), 1u << 10);  // its block is read again
  gpu.log.clear();
  const uint32_t budget = static_cast<uint32_t>(gpu.dma_allocations_left);
  hostile.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
  hostile.Advance(50'000);
  const bool done = (hostile.Read(NV_PFB_PRI_MMU_INVALIDATE) >> 31) == 0;
  FUZZ_CHECK(done, "an invalidate does not come to its end");
  Walks walks(hostile, channel);
  if (budget != 0 && !gpu.Logged("limit reached") && !gpu.Logged("keeps its old instance block") &&
      walks.bound()) {
    for (uint32_t i = 0; i < 32; ++i) walks.Compare(Va(input));
  }
  gpu.on_copy = on_copy;
}

}  // namespace

void StepPageTables(Hostile& hostile, Input& input) {
  using rig::RawGuest;
  const uint8_t kind = input.U8();
  const uint32_t channel = kind >> 4 & 1;
  switch (kind % 16) {
    case 0: SetRoot(hostile, input, channel); return;
    case 1: Invalidate(hostile, input); return;
    case 2: {
      const uint64_t va = Va(input);
      hostile.guest().Push(channel, kRunlist, RawGuest::Release(va, input.U8()));
      hostile.Advance(20'000);
      return;
    }
    case 3: {
      const uint64_t from = Va(input);
      const uint64_t to = Va(input);
      hostile.guest().Push(channel, kRunlist,
                           RawGuest::Copy(from, to, input.U16(), RawGuest::kData, 1));
      hostile.Advance(50'000);
      return;
    }
    case 4: {
      const uint64_t start = uint64_t{input.Below(Hostile::kMemoryPages)} << 12;
      hostile.Unmap(start, input.OneIn(2) ? kPage : input.Value());
      return;
    }
    case 5: {
      auto& pages = hostile.machine().host().unpinnable;
      const uint64_t page = Hostile::kSysPool / kPage + input.Below(Hostile::kPoolPages);
      if (!pages.insert(page).second) pages.erase(page);
      return;
    }
    case 6: hostile.StartChannel(channel, kRunlist); return;
    case 7: {
      // Unbound and bound again: spaces come and go.
      hostile.Write(NV_PCCSR_CHANNEL(channel), 1u << 11);
      hostile.Advance(300'000);
      hostile.Write(NV_PCCSR_CHANNEL_INST(channel), 0);
      hostile.guest().Bind(channel);
      hostile.Write(NV_PCCSR_CHANNEL(channel), 1u << 10);
      return;
    }
    case 8: CompareShadow(hostile, input, channel); return;
    default: WriteEntries(hostile, input); return;
  }
}

void FuzzPageTables(Input& input) {
  rig::ModelGpu gpu(kGpu);
  Hostile hostile(gpu);
  gpu.dma_allocations_left = kAllocations;
  hostile.StartChannel(0, kRunlist);
  const uint8_t how = input.U8();
  // Another vCPU writes a table each time one is read.
  Input* source = &input;
  if ((how & 1) != 0) {
    gpu.on_copy = [&hostile, source] {
      if (!source->empty() && source->OneIn(8)) WriteEntries(hostile, *source);
    };
  }
  if ((how & 2) != 0) hostile.machine().host().max_pinned = how;
  Drive(hostile, input, StepPageTables);
}

}  // namespace fuzz
