// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "rig/raw_guest.h"

#include <atomic>
#include <cstring>

#include "ts104/regs.h"

namespace rig {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kRingEntriesLog2 = 6;

}  // namespace

RawGuest::RawGuest(fakes::GuestHardware& machine) : machine_(machine) {
  // PD3 -> PD2 -> PD1 -> PD0 -> PT, all in VRAM: PDE aperture 1.
  SetVram64(kRoot, 0x2 | (kRoot + 0x1000) >> 12 << 8);
  SetVram64(kRoot + 0x1000, 0x2 | (kRoot + 0x2000) >> 12 << 8);
  SetVram64(kRoot + 0x2000, 0x2 | (kRoot + 0x3000) >> 12 << 8);
  SetVram64(kRoot + 0x3008, 0x2 | kPageTable >> 12 << 8);
  for (uint64_t page = kRing; page < kRing + 0x10000; page += kPage) MapVram(page, page);
  for (uint64_t page = kPush; page < kPush + 0x10000; page += kPage) MapVram(page, page);
  for (uint64_t page = kData; page < kData + 0x10000; page += kPage) MapVram(page, page);
  Write(NV_PFB_PRI_MMU_FAULT_BUFFER_LO(0), kFaults | 0x1);  // physical, local
  Write(NV_PFB_PRI_MMU_FAULT_BUFFER_HI(0), 0);
  Write(NV_PFB_PRI_MMU_FAULT_BUFFER_SIZE(0), 1u << 31 | kFaultEntries);
  Write(NV_CTRL_VIRTUAL_CHANNEL_CFG(0), 1u << 31 | 0xfff);
  Write(NV_PFIFO_INTR_EN_0, 0xffffffff);
  for (uint32_t pbdma = 0; pbdma < 3; ++pbdma) {
    Write(NV_PPBDMA_INTR_EN_0(pbdma), 0xffffffff);
    Write(NV_PPBDMA_INTR_EN_1(pbdma), 0xffffffff);
  }
  Write(NV_CTRL_LEAF_EN_SET(0), 0xffffffff);
  Write(NV_CTRL_LEAF_EN_SET(4), 0xffffffff);
  Write(NV_CTRL_TOP_EN_SET(0), 0xf);
}

// Whole words, as a CPU writes them: the device may read them at the same time.
uint32_t RawGuest::Vram32(uint64_t offset) {
  auto* word = reinterpret_cast<uint32_t*>(machine_.vram() + offset);
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}
void RawGuest::SetVram32(uint64_t offset, uint32_t value) {
  auto* word = reinterpret_cast<uint32_t*>(machine_.vram() + offset);
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
void RawGuest::SetVram64(uint64_t offset, uint64_t value) {
  auto* word = reinterpret_cast<uint64_t*>(machine_.vram() + offset);
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

void RawGuest::Invalidate() {
  Write(NV_PFB_PRI_MMU_INVALIDATE, 1u << 31 | 0x3);  // ALL_VA, ALL_PDB
  for (int i = 0; i < 1000 && (Read(NV_PFB_PRI_MMU_INVALIDATE) >> 31) != 0; ++i) {
    machine_.Advance(1000);
  }
}

void RawGuest::WriteInstance(uint32_t channel, uint32_t config) {
  const uint64_t at = kInstance + channel * kPage;
  std::memset(machine_.vram() + at, 0, kPage);
  SetVram32(at + NV_RAMFC_USERD, static_cast<uint32_t>(kUserd + channel * 512));
  SetVram32(at + NV_RAMFC_SIGNATURE, 0xface);
  SetVram32(at + NV_RAMFC_ACQUIRE, 0x7ffff902);
  SetVram32(at + NV_RAMFC_GP_BASE, static_cast<uint32_t>(kRing + channel * kPage));
  SetVram32(at + NV_RAMFC_GP_BASE_HI, kRingEntriesLog2 << 16);
  SetVram32(at + NV_RAMFC_PB_HEADER, 0x20400000);
  SetVram32(at + NV_RAMFC_SUBDEVICE, 0x30000001);
  SetVram32(at + NV_RAMFC_CONFIG, config);
  SetVram32(at + NV_RAMIN_PAGE_DIR_BASE, static_cast<uint32_t>(kRoot) | 0xc00);
  put_[channel] = pushed_[channel] = 0;
  std::memset(machine_.vram() + kUserd + channel * 512, 0, 512);
}

void RawGuest::Bind(uint32_t channel) {
  Write(NV_PCCSR_CHANNEL_INST(channel),
        1u << 31 | static_cast<uint32_t>((kInstance + channel * kPage) >> 12));
}

void RawGuest::Enable(uint32_t channel) { Write(NV_PCCSR_CHANNEL(channel), 1u << 10); }

void RawGuest::Submit(uint32_t runlist, const std::vector<uint32_t>& channels) {
  const uint64_t at = kList + runlist * kPage;
  uint64_t entry = at;
  for (const uint32_t channel : channels) {
    SetVram32(entry, 0x80030001);  // TSG, timeslice 128 << 3
    SetVram32(entry + 4, 1);
    SetVram32(entry + 8, channel);
    SetVram32(entry + 12, 0);
    SetVram32(entry + 16, 0);
    SetVram32(entry + 20, 0);
    SetVram32(entry + 24, channel);
    SetVram32(entry + 28, 0);
    entry += 32;
  }
  Write(NV_PFIFO_RUNLIST_BASE_LO(runlist), static_cast<uint32_t>(at));
  Write(NV_PFIFO_RUNLIST_BASE_HI(runlist), 0);
  Write(NV_PFIFO_RUNLIST_SUBMIT(runlist), static_cast<uint32_t>(channels.size() * 2));
  for (int i = 0; i < 100 && (Read(NV_PFIFO_RUNLIST_SUBMIT_INFO(runlist)) >> 15 & 1) != 0; ++i) {
    machine_.Advance(10'000);
  }
}

void RawGuest::StartChannel(uint32_t channel, uint32_t runlist, uint32_t config) {
  WriteInstance(channel, config);
  Bind(channel);
  Enable(channel);
  Submit(runlist, {channel});
}

void RawGuest::Push(uint32_t channel, uint32_t runlist, const std::vector<uint32_t>& words) {
  // A page per channel: it starts over before its end.
  if ((pushed_[channel] + words.size()) * 4 > kPage) pushed_[channel] = 0;
  const uint64_t segment = kPush + channel * kPage + pushed_[channel] * 4;
  for (size_t i = 0; i < words.size(); ++i) SetVram32(segment + i * 4, words[i]);
  pushed_[channel] += static_cast<uint32_t>(words.size());
  const uint64_t entry = segment | static_cast<uint64_t>(words.size()) << 42;
  SetVram64(kRing + channel * kPage + put_[channel] * 8, entry);
  put_[channel] = (put_[channel] + 1) % (1u << kRingEntriesLog2);
  SetVram32(kUserd + channel * 512 + NV_USERD_GP_PUT, put_[channel]);
  Ring(channel, runlist);
}

void RawGuest::Ring(uint32_t channel, uint32_t runlist) {
  Write(NV_FUNC_BAR0_USERMODE_BASE + NV_USERMODE_NOTIFY_CHANNEL_PENDING, channel | runlist << 16);
}

bool RawGuest::WaitVram32(uint64_t offset, uint32_t value, uint32_t ms) {
  for (uint32_t i = 0; i < ms * 10; ++i) {
    if (Vram32(offset) == value) return true;
    machine_.Advance(100'000);
  }
  return Vram32(offset) == value;
}

std::vector<uint32_t> RawGuest::Release(uint64_t va, uint32_t value) {
  return {Inc(NVC46F_SEM_ADDR_LO, 5),
          static_cast<uint32_t>(va),
          static_cast<uint32_t>(va >> 32),
          value,
          0,
          0x1};
}

std::vector<uint32_t> RawGuest::Copy(uint64_t from, uint64_t to, uint32_t bytes, uint64_t semaphore,
                                     uint32_t value) {
  constexpr uint32_t kSub = 4;
  return {Inc(NVC5B5_OFFSET_IN_UPPER, 4, kSub),
          static_cast<uint32_t>(from >> 32),
          static_cast<uint32_t>(from),
          static_cast<uint32_t>(to >> 32),
          static_cast<uint32_t>(to),
          Inc(NVC5B5_LINE_LENGTH_IN, 2, kSub),
          bytes,
          1,
          Inc(NVC5B5_SET_SEMAPHORE_A, 3, kSub),
          static_cast<uint32_t>(semaphore >> 32),
          static_cast<uint32_t>(semaphore),
          value,
          Inc(NVC5B5_LAUNCH_DMA, 1, kSub),
          0x2 | 0x4 | 0x1 << 3 | 0x2 << 5 | 0x180};  // non-pipelined, flush, release, notify, pitch
}

std::vector<std::vector<uint32_t>> RawGuest::TakeFaults() {
  std::vector<std::vector<uint32_t>> faults;
  const uint32_t put = Read(NV_PFB_PRI_MMU_FAULT_BUFFER_PUT(0)) & 0xfffff;
  while (fault_get_ != put) {
    std::vector<uint32_t> packet(8);
    for (uint64_t i = 0; i < 8; ++i) packet[i] = Vram32(kFaults + fault_get_ * 32 + i * 4);
    faults.push_back(packet);
    fault_get_ = (fault_get_ + 1) % kFaultEntries;
  }
  Write(NV_PFB_PRI_MMU_FAULT_BUFFER_GET(0), fault_get_);
  return faults;
}

}  // namespace rig
