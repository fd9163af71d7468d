// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "hostile/storms.h"

#include <array>
#include <vector>

#include "base/bits.h"
#include "ts104/regs.h"

namespace hostile {

namespace {

using rig::RawGuest;

constexpr uint32_t kGraphics = Attacker::kGraphicsRunlist;
constexpr uint32_t kCompute = Attacker::kGraphicsChannel;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMapped = 0x100000;   // GPU addresses of system memory
constexpr uint64_t kNowhere = 0x1ff000;  // mapped to nothing
// PTEs that fault, one page each.
constexpr uint64_t kBadPages = 0x1e0000;
constexpr uint64_t kContext = 0x200000;  // in VRAM, as what follows
constexpr uint64_t kQmd = RawGuest::kData + 0x4000;
constexpr uint64_t kCode = RawGuest::kData + 0x8000;

constexpr uint64_t kPte = 0x1;
constexpr uint64_t kPrivilege = 0x20;
constexpr uint64_t kReadOnly = 0x40;
constexpr uint64_t kAtomicDisable = 0x80;
constexpr uint64_t VramPte(uint64_t offset) { return kPte | offset >> 12 << 8; }
// Peer memory, a kind that is none, VRAM that is not there, system memory that is not there, a page
// of the kernel's, one that cannot be written, one without atomics.
constexpr uint64_t kBadPtes[] = {VramPte(RawGuest::kData) | 1u << 1,
                                 VramPte(RawGuest::kData) | uint64_t{1} << 56,
                                 VramPte(uint64_t{1} << 36),
                                 VramPte(uint64_t{1} << 40) | 2u << 1,
                                 VramPte(RawGuest::kData) | kPrivilege,
                                 VramPte(RawGuest::kData) | kReadOnly,
                                 VramPte(RawGuest::kData) | kAtomicDisable};

void Execute(Attacker& a, uint64_t va, uint32_t operation) {
  a.guest.Push(0, a.means.runlist,
               {RawGuest::Inc(NVC46F_SEM_ADDR_LO, 5), static_cast<uint32_t>(va),
                static_cast<uint32_t>(va >> 32), 1, 0, operation});
}

// 64 KiB again and again: seconds of work in one launch.
std::vector<uint32_t> EndlessCopy() {
  std::vector<uint32_t> words =
      RawGuest::Copy(RawGuest::kData, RawGuest::kData, 0x8000, RawGuest::kData, 1);
  words[7] = 0x100000;                               // lines
  words.back() = (words.back() & ~0x60u) | 1u << 9;  // several lines, no interrupt
  return words;
}

void Interrupts(Attacker& a) {
  std::vector<uint32_t> words(33, 0);
  words[0] = 3u << 29 | 32u << 16 | NVC46F_NON_STALL_INTERRUPT / 4;  // one method 32 times
  a.guest.Push(0, a.means.runlist, words);
  a.guest.Write(NV_CTRL_LEAF(0), ~0u);
}

void Doorbells(Attacker& a) {
  for (uint32_t i = 0; i < 50; ++i) a.guest.Ring(i % 3, i % 4);
}

void Invalidates(Attacker& a) {
  for (uint64_t page = 0; page < Attacker::kMemoryPages; ++page) {
    const uint64_t other = (page ^ a.round) % Attacker::kMemoryPages;
    a.guest.MapSystem(kMapped + page * kPage, a.means.memory + other * kPage);
  }
  a.guest.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
}

void Submits(Attacker& a) { a.guest.Write(NV_PFIFO_RUNLIST_SUBMIT(a.means.runlist), 2); }

void SubmitList(Attacker& a, const std::vector<uint32_t>& words, uint32_t entries) {
  constexpr uint64_t kList = RawGuest::kList + 0x3000;
  for (size_t i = 0; i < words.size(); ++i) a.guest.SetVram32(kList + i * 4, words[i]);
  a.guest.Write(NV_PFIFO_RUNLIST_BASE_LO(a.means.runlist), static_cast<uint32_t>(kList));
  a.guest.Write(NV_PFIFO_RUNLIST_SUBMIT(a.means.runlist), entries);
  a.guest.Write(NV_PFIFO_INTR_0, ~0u);
}

void BadLists(Attacker& a) { SubmitList(a, std::vector<uint32_t>(64, 0x80030001u + a.round), 16); }

// No channels, more than the list has, a channel that is not bound, one of nobody's, one twice.
void BadTsgs(Attacker& a) {
  constexpr uint32_t kHeader = 0x80030001;
  switch (a.round % 5) {
    case 0: SubmitList(a, {kHeader, 0, 0, 0}, 1); return;
    case 1: SubmitList(a, {kHeader, 64, 0, 0, 0, 0, 0, 0}, 2); return;
    case 2: SubmitList(a, {kHeader, 1, 7, 0, 0, 0, 7, 0}, 2); return;
    case 3: SubmitList(a, {kHeader, 1, 0xfff, 0, 0, 0, 0xfff, 0}, 2); return;
    default: SubmitList(a, {kHeader, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 3); return;
  }
}

void Preempts(Attacker& a) {
  a.guest.Write(NV_PFIFO_RUNLIST_PREEMPT, 7);
  a.guest.Write(NV_PFIFO_PREEMPT, 1u << 24);
}

// One type after the other. A copy that faulted is lost, so the next one comes next; a method of
// the host is tried again, so its channel has to be made anew.
void MmuFaults(Attacker& a) {
  constexpr uint32_t kPages = std::size(kBadPtes);
  if (a.round == 1) {
    for (uint64_t i = 0; i < kPages; ++i) a.guest.SetPte(kBadPages + i * kPage, kBadPtes[i]);
    a.guest.Invalidate();
  }
  const uint32_t type = a.round % (kPages + 2);
  if (type == kPages) {
    a.Restart();  // after the method of the host
  } else {
    a.Recover();
  }
  uint64_t va = kBadPages + type * kPage;
  if (type == kPages) va = kNowhere;
  if (type == kPages + 1) va = uint64_t{1} << 39;  // no directory
  if (type == kPages - 1) {
    Execute(a, va, NVC46F_SEM_EXECUTE_OPERATION_REDUCTION);
  } else {
    a.guest.Push(0, a.means.runlist, RawGuest::Copy(RawGuest::kData, va, 64, RawGuest::kData, 1));
  }
  a.guest.TakeFaults();
}

void FaultBufferOverflow(Attacker& a) {
  a.Recover();
  Execute(a, kNowhere, NVC46F_SEM_EXECUTE_OPERATION_RELEASE);
}

void PbdmaErrors(Attacker& a) {
  a.Recover();
  switch (a.round % 4) {
    case 0: a.guest.Push(0, a.means.runlist, {RawGuest::Inc(NVC46F_ILLEGAL, 1), a.round}); return;
    case 1: a.guest.Push(0, a.means.runlist, {6u << 29 | 1u << 16, 0}); return;  // no such header
    case 2: Execute(a, RawGuest::kData, 7); return;  // no such operation
    default: Execute(a, RawGuest::kData + 2, NVC46F_SEM_EXECUTE_OPERATION_RELEASE); return;
  }
}

void IllegalClasses(Attacker& a) {
  a.Recover();
  a.guest.Push(0, a.means.runlist, {RawGuest::Inc(NVC46F_SET_OBJECT, 1, 4), 0x1234});
}

void IllegalMethods(Attacker& a) {
  a.Recover();
  a.guest.Push(0, a.means.runlist, {RawGuest::Inc(0x1ffc, 1, 4), a.round});
  a.guest.TakeFaults();
}

// A semaphore type that is none, physical memory.
void CopyErrors(Attacker& a) {
  a.Recover();
  std::vector<uint32_t> words =
      RawGuest::Copy(RawGuest::kData, RawGuest::kData + 4096, 4096, RawGuest::kData, 1);
  words.back() |= a.round % 2 == 0 ? 3u << NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE__LO
                                   : 1u << NVC5B5_LAUNCH_DMA_SRC_TYPE__LO;
  a.guest.Push(0, a.means.runlist, words);
  a.guest.TakeFaults();
}

void NeverReleased(Attacker& a) {
  Execute(a, RawGuest::kData + 64, NVC46F_SEM_EXECUTE_OPERATION_ACQUIRE);
}

void EndlessCopies(Attacker& a) {
  if (a.round % 8 == 1) a.guest.Push(0, a.means.runlist, EndlessCopy());
}

void EndlessKernels(Attacker& a) {
  if (a.round == 1) a.StartGraphics(true);
  if (a.round % 8 == 1) a.LaunchEndless();
}

// Programs that the engine cannot leave: each is dropped after the context-switch timeout.
void ContextsThatStay(Attacker& a) {
  if (a.round == 1) a.StartGraphics(false);
  a.Recover(kCompute, kGraphics);
  if (a.round % 8 == 1) a.LaunchEndless();
  a.guest.TakeFaults();
}

void Resets(Attacker& a) {
  if (a.round % 16 == 8) a.means.reset();
  if (a.round % 16 == 0) a.guest.StartChannel(0, a.means.runlist);
  if (a.round % 16 == 1) a.guest.Push(0, a.means.runlist, EndlessCopy());
}

void BindAndUnbind(Attacker& a) {
  a.guest.Write(NV_PCCSR_CHANNEL(1), 1u << 11);
  a.guest.Write(NV_PCCSR_CHANNEL_INST(1), 0);
  a.guest.WriteInstance(1);
  a.guest.Bind(1);
  a.guest.Enable(1);
}

// A block of garbage: bound, enabled, in a list.
void BadInstances(Attacker& a) {
  a.guest.Write(NV_PCCSR_CHANNEL(1), 1u << 11);
  a.guest.Write(NV_PCCSR_CHANNEL_INST(1), 0);
  const uint64_t block = RawGuest::kInstance + kPage;
  for (uint64_t at = 0; at < 0x240; at += 4) {
    a.guest.SetVram32(block + at, static_cast<uint32_t>(at * 2654435761u) ^ a.round << 7);
  }
  a.guest.Bind(1);
  a.guest.Enable(1);
  SubmitList(a, {0x80030001, 1, 1, 0, 0, 0, 1, 0}, 2);
}

void Unmaps(Attacker& a) {
  a.guest.MapSystem(kMapped, a.means.memory + 5 * kPage);
  a.guest.Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 3);
  a.means.memory = a.means.unmap();
}

constexpr Storm kStorms[] = {
    {"Interrupts", false, Interrupts},
    {"Doorbells", false, Doorbells},
    {"Invalidates", false, Invalidates},
    {"Submits", false, Submits},
    {"BadLists", false, BadLists},
    {"BadTsgs", false, BadTsgs},
    {"Preempts", false, Preempts},
    {"MmuFaults", false, MmuFaults},
    {"FaultBufferOverflow", false, FaultBufferOverflow},
    {"PbdmaErrors", false, PbdmaErrors},
    {"IllegalClasses", false, IllegalClasses},
    {"IllegalMethods", false, IllegalMethods},
    {"CopyErrors", false, CopyErrors},
    {"NeverReleased", false, NeverReleased},
    {"EndlessCopies", false, EndlessCopies},
    {"EndlessKernels", true, EndlessKernels},
    {"ContextsThatStay", true, ContextsThatStay},
    {"Resets", false, Resets},
    {"BindAndUnbind", false, BindAndUnbind},
    {"BadInstances", false, BadInstances},
    {"Unmaps", false, Unmaps},
};

}  // namespace

Attacker::Attacker(fakes::GuestHardware& hardware, Means given)
    : guest(hardware), means(std::move(given)) {
  guest.StartChannel(0, means.runlist);
}

void Attacker::Restart() {
  guest.Write(NV_PCCSR_CHANNEL(0), 1u << 11);
  guest.Write(NV_PCCSR_CHANNEL_INST(0), 0);
  guest.StartChannel(0, means.runlist);
}

void Attacker::Recover(uint32_t channel, uint32_t runlist) {
  guest.Write(NV_PPBDMA_INTR_0(runlist), ~0u);
  guest.Write(NV_PPBDMA_INTR_1(runlist), ~0u);
  guest.Write(NV_PCCSR_CHANNEL(channel), 3u << 22 | 1u << 10);
}

void Attacker::StartGraphics(bool cilp) {
  guest.WriteInstance(kCompute);
  guest.SetVram32(RawGuest::kInstance + kCompute * kPage + NV_RAMIN_ENGINE_WFI_PTR,
                  static_cast<uint32_t>(kContext));
  guest.SetVram32(kContext, 0);         // fresh
  guest.SetVram32(kContext + 0x80, 0);  // graphics: at idle
  guest.SetVram32(kContext + 0x84, cilp ? 2 : 0);
  guest.SetVram32(kContext + 0xfc, 0x600dc0de);
  guest.SetVram32(kCode, 0x0000006f);  // j .
  std::array<uint32_t, 64> qmd = {};
  const auto set = [&qmd](size_t hi, size_t lo, uint64_t value) {
    base::SetBits(std::span<uint32_t>(qmd), hi, lo, value);
  };
  set(579, 576, 3);  // version V02_03
  set(583, 580, 2);
  for (const size_t lo : {384u, 416u, 448u}) set(lo + 15, lo, 1);  // a grid of one CTA
  for (const size_t lo : {592u, 608u, 624u}) set(lo + 15, lo, 1);  // of one thread
  set(1567, 1536, kCode);
  for (size_t i = 0; i < qmd.size(); ++i) guest.SetVram32(kQmd + i * 4, qmd[i]);
  guest.Bind(kCompute);
  guest.Enable(kCompute);
  guest.Submit(kGraphics, {kCompute});
}

void Attacker::LaunchEndless() {
  guest.Push(
      kCompute, kGraphics,
      {RawGuest::Inc(NVC46F_SET_OBJECT, 1, 1), 0xc5c0, RawGuest::Inc(NVC5C0_SEND_PCAS_A, 1, 1),
       static_cast<uint32_t>(kQmd >> 8), RawGuest::Inc(NVC5C0_SEND_SIGNALING_PCAS_B, 1, 1), 3});
}

std::span<const Storm> Storms() { return kStorms; }

const Storm* FindStorm(std::string_view name) {
  for (const Storm& storm : kStorms) {
    if (name == storm.name) return &storm;
  }
  return nullptr;
}

}  // namespace hostile
