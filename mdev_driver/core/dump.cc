// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// What the parts of the driver tell of themselves. Each function is called with the lock that
// guards what it shows; fields and their meaning are in docs/sysfs-abi.md.
#include "core/dump.h"

#include "core/memory/shadow_page_table.h"
#include "core/physical_gpu.h"
#include "core/vgpu.h"
#include "ts104/typed.h"

namespace turnstile {

namespace reg = ts104;

namespace {

TextLine& operator<<(TextLine& line, GuestAddress address) {
  return line << (address.aperture == Aperture::kVid ? "vid:" : "sys:") << Hex{address.value};
}

void AppendHolds(TextLine& line, uint32_t holds) {
  static constexpr const char* kNames[] = {"error", "mem_op", "sync", "check"};
  const char* separator = "";
  for (uint32_t i = 0; i < 4; ++i) {
    if ((holds >> i & 1) == 0) continue;
    line << separator << kNames[i];
    separator = ",";
  }
  if (holds == 0) line << "none";
}

}  // namespace

// ---- pins
// ----------------------------------------------------------------------------------------

// A line per run of pages that are neighbours for the guest and for the device. Where a run begins
// is seen from the page before it, so neither order nor memory is needed.
void PinTable::DumpTo(Dump& dump) const {
  const auto follows = [this](const Pin& pin, uint64_t next_page) {
    const Pin* next = pins_.Find(next_page);
    const bool alike = next != nullptr && next->dma == pin.dma + kPageSize &&
                       (next->references == 0) == (pin.references == 0);
    return alike ? next : nullptr;
  };
  pins_.ForEach([&](uint64_t page, const Pin& first) {
    if (dump.full()) return;
    const Pin* before = pins_.Find(page - 1);
    if (before != nullptr && follows(*before, page) != nullptr) return;
    uint64_t references = first.references;
    uint64_t pages = 1;
    for (const Pin* pin = &first; (pin = follows(*pin, page + pages)) != nullptr; ++pages) {
      references += pin->references;
    }
    DumpLine(dump) << "gpa=" << Hex{page << kSmallShift} << " pages=" << pages
                   << " dma=" << Hex{first.dma} << " references=" << references;
  });
}

// ---- shadow page tables
// --------------------------------------------------------------------------

// Valid entries of one space, a line per run of neighbours that lead to neighbours.
class MappingDump {
 public:
  MappingDump(Dump& dump, uint64_t root) : dump_(dump), root_(root) {}
  ~MappingDump() { EndRun(); }
  MappingDump(const MappingDump&) = delete;
  MappingDump& operator=(const MappingDump&) = delete;

  bool full() const { return dump_.full(); }

  // An entry for the page of 1 << shift bytes at `va`. Invalid ones end a run.
  void Add(uint64_t va, unsigned shift, uint64_t entry) {
    if (!Pte(entry).Test<Pte::Valid>()) return EndRun();
    const bool beside = pages_ != 0 && shift == shift_ && va == va_ + (pages_ << shift);
    const bool goes_on = beside && (IsFault(entry) ? entry == entry_ : Continues(entry));
    if (!goes_on) {
      EndRun();
      va_ = va;
      shift_ = shift;
      entry_ = entry;
    }
    ++pages_;
  }

 private:
  using Pte = reg::mmu_fmt::Pte;

  static uint64_t AddressOf(uint64_t entry) {
    const Pte pte(entry);
    const bool video = pte.Get<Pte::Aperture>() == Pte::kApertureVideo;
    return (video ? pte.Get<Pte::AddressVid>() : pte.Get<Pte::AddressSys>()) << kSmallShift;
  }
  static uint64_t FlagsOf(uint64_t entry) {
    return Pte(PteFlags(entry)).Set<Pte::Aperture>(Pte(entry).Get<Pte::Aperture>()).raw();
  }
  // Valid, and made so that an access faults: see pte.h.
  static bool IsFault(uint64_t entry) {
    const uint64_t kind = Pte(entry).Get<Pte::Kind>();
    return Pte(entry).Get<Pte::Aperture>() == Pte::kAperturePeer || entry == kPteRegion ||
           (kind != Pte::kKindPitch && kind != Pte::kKindGenericMemory);
  }
  bool Continues(uint64_t entry) const {
    return FlagsOf(entry) == FlagsOf(entry_) &&
           AddressOf(entry) == AddressOf(entry_) + (pages_ << shift_);
  }

  void EndRun() {
    if (pages_ == 0) return;
    const Pte pte(entry_);
    DumpLine line(dump_);
    line << "root=" << Hex{root_} << " va=" << Hex{va_} << " pages=" << pages_
         << " page_bytes=" << (uint64_t{1} << shift_) << " to=";
    if (IsFault(entry_)) {
      line << "fault";
    } else {
      const bool video = pte.Get<Pte::Aperture>() == Pte::kApertureVideo;
      line << (video ? "vid:" : "sys:") << Hex{AddressOf(entry_)};
    }
    line << " kind=" << Hex{pte.Get<Pte::Kind>()} << " read_only=" << pte.Get<Pte::ReadOnly>()
         << " privilege=" << pte.Get<Pte::Privilege>() << " volatile=" << pte.Get<Pte::Vol>()
         << " atomic_disable=" << pte.Get<Pte::AtomicDisable>();
    pages_ = 0;
  }

  Dump& dump_;
  const uint64_t root_;
  uint64_t va_ = 0;
  unsigned shift_ = 0;
  uint64_t entry_ = 0;
  uint64_t pages_ = 0;
};

// As the device walks it: a valid big entry hides the small ones, and so does kPteNoSmall.
void ShadowRegion::DumpTo(uint64_t va, MappingDump& out) const {
  if (huge_entry_ != 0) return out.Add(va, kHugeShift, huge_entry_);
  for (uint32_t block = 0; block < kBlocksPerRegion && !out.full(); ++block) {
    const uint64_t big = shadow_big_ ? shadow_big_.Load64(block) : kPteInvalid;
    const uint64_t block_va = va + (uint64_t{block} << kBigShift);
    if ((big & 1) != 0 || (big & kPteNoSmall) != 0 || !shadow_small_) {
      out.Add(block_va, kBigShift, big);
      continue;
    }
    for (uint32_t i = 0; i < kSlotsPerBlock; ++i) {
      out.Add(block_va + (uint64_t{i} << kSmallShift), kSmallShift,
              shadow_small_.Load64(block * kSlotsPerBlock + i));
    }
  }
}

// Children that are not linked the device cannot reach yet.
void ShadowDirectory::DumpTo(uint64_t va, MappingDump& out) const {
  for (uint32_t index = 0; index < Entries() && !out.full(); ++index) {
    const uint64_t child_va = va + (uint64_t{index} << Shift());
    const auto* directory = directories_.Find(index);
    if (directory != nullptr && (*directory)->linked) (*directory)->DumpTo(child_va, out);
    const auto* region = regions_.Find(index);
    if (region != nullptr && (*region)->linked) (*region)->DumpTo(child_va, out);
  }
}

void ShadowMemory::DumpTo(Dump& dump) const {
  DumpLine(dump) << "spaces=" << uint64_t{spaces_.size()} << " tables=" << tables_
                 << " tables_max=" << kMaxTables
                 << " waiting_for_tlb=" << uint64_t{retired_spaces_.size()};
  for (const auto& space : spaces_) {
    const uint64_t root = space->shadow_root().value();
    {
      DumpLine line(dump);
      line << "root=" << Hex{root} << " guest=" << space->root();
      line << " references=" << space->references_ << " syncing=" << (space->syncing_ ? 1u : 0u);
    }
    MappingDump mappings(dump, root);
    space->directory_->DumpTo(0, mappings);
  }
}

void VirtualMmu::DumpPins(Dump& dump) const {
  context_.mutex.AssertHeld();
  if (pins_ != nullptr) pins_->DumpTo(dump);
}

void VirtualMmu::DumpShadow(Dump& dump) const {
  context_.mutex.AssertHeld();
  if (shadow_ != nullptr) shadow_->DumpTo(dump);
}

// ---- channels
// ------------------------------------------------------------------------------------

void VirtualFifo::DumpChannels(Dump& dump) {
  context_.mutex.AssertHeld();
  DumpLine(dump) << "function=" << context_.partition.function.value()
                 << " first_channel=" << context_.partition.first_chid
                 << " channels=" << context_.partition.channels;
  for (uint32_t chid = 0; chid < context_.partition.channels && !dump.full(); ++chid) {
    const VirtualChannel* channel = Find(chid);
    if (channel != nullptr) DumpChannel(*channel, dump);
  }
}

void VirtualFifo::DumpChannel(const VirtualChannel& channel, Dump& dump) const {
  context_.mutex.AssertHeld();
  const uint32_t physical = context_.PhysicalId(channel.chid);
  DumpLine line(dump);
  line << "channel=" << channel.chid << " physical=" << physical << " inst=" << Hex{channel.inst}
       << " bound=" << uint32_t{channel.bound} << " enabled=" << uint32_t{channel.enabled}
       << " listed=" << uint32_t{channel.listed} << " stale=" << uint32_t{channel.stale}
       << " holds=";
  AppendHolds(line, channel.holds);
  if (channel.space != nullptr) line << " root=" << Hex{channel.space->shadow_root().value()};
  if (channel.userd.valid) {
    line << " userd=" << (channel.userd.system ? "sys:" : "vid:") << Hex{channel.userd.address};
  }
  if (channel.bound) line << " pccsr=" << Hex{context_.gpu.ReadChannel(physical)};
}

void Vgpu::DumpTo(uint32_t kind, Dump& dump) {
  base::MutexGuard guard(context_.mutex);
  switch (kind) {
    case TS_VGPU_DUMP_CHANNELS: fifo_.DumpChannels(dump); break;
    case TS_VGPU_DUMP_SHADOW: mmu_.DumpShadow(dump); break;
    case TS_VGPU_DUMP_PINS: mmu_.DumpPins(dump); break;
  }
}

// ---- runlists
// ------------------------------------------------------------------------------------

template <typename Visit>
void PhysicalGpu::ForEachList(Visit&& visit) {
  for (uint32_t function = 1; function < kNumFunctions; ++function) {
    const FunctionState* state = functions_[function].get();
    for (uint32_t r = 0; state != nullptr && r < kNumRunlists; ++r) {
      if (!state->lists[r].empty()) visit(*state, function, r);
    }
  }
}

void PhysicalGpu::DumpRunlists(Dump& dump) {
  base::MutexGuard guard(mutex_);
  for (uint32_t r = 0; r < kNumRunlists; ++r) {
    DumpLine(dump) << "runlist=" << r << " base=" << Hex{runlists_[r].base.value_or(0)}
                   << " in_flight=" << runlists_[r].in_flight
                   << " function=" << runlists_[r].function
                   << " pbdma_status=" << Hex{host_.Read32(reg::pfifo::PbdmaStatus::Offset(r))};
  }
  for (uint32_t engine = 0; engine < kNumEngines; ++engine) {
    DumpLine(dump) << "engine=" << engine << " engine_status="
                   << Hex{host_.Read32(reg::pfifo::EngineStatus::Offset(engine))};
  }
  uint32_t lists = 0;
  ForEachList([&](const FunctionState& state, uint32_t function, uint32_t r) {
    ++lists;
    DumpLine(dump) << "runlist=" << r << " function=" << function
                   << " tsgs=" << uint64_t{state.lists[r].tsgs().size()}
                   << " channels=" << uint64_t{state.lists[r].chids().size()}
                   << " disabled=" << uint32_t{state.disabled[r]}
                   << " pending=" << uint32_t{state.submit_pending[r]};
  });
  if (lists == 0) return;
  // Every list has the same room: a guest with a long one does not push the others out.
  const uint32_t room = (Dump::kMaxLines - kNumRunlists - kNumEngines) / lists - 2;
  ForEachList([&](const FunctionState& state, uint32_t function, uint32_t r) {
    DumpList(state, function, r, room, dump);
  });
}

// At most `room` lines, and one if that is too few.
void PhysicalGpu::DumpList(const FunctionState& state, uint32_t function, uint32_t runlist,
                           uint32_t room, Dump& dump) {
  const SoftwareRunlist& list = state.lists[runlist];
  for (const SoftwareRunlist::Tsg& tsg : list.tsgs()) {
    if (dump.full()) return;
    if (room < 1u + tsg.length) {
      DumpLine(dump) << "runlist=" << runlist << " function=" << function << " truncated=1";
      return;
    }
    room -= 1 + tsg.length;
    DumpLine(dump) << "runlist=" << runlist << " function=" << function
                   << " tsg=" << uint32_t{tsg.tsgid}
                   << " physical=" << (state.partition.first_chid + tsg.tsgid) << " timeslice_ns="
                   << (uint64_t{tsg.timeslice_timeout} << tsg.timeslice_scale) * 1024
                   << " channels=" << uint32_t{tsg.length};
    for (uint32_t i = 0; i < tsg.length; ++i) {
      DumpLine(dump) << "runlist=" << runlist << " function=" << function
                     << " tsg=" << uint32_t{tsg.tsgid}
                     << " channel=" << uint32_t{list.chids()[tsg.first + i]};
    }
  }
}

}  // namespace turnstile
