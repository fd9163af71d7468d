// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A guest without a driver: writes page tables, instance blocks, rings and registers by hand, right
// or wrong as the test wants them.
#pragma once

#include <cstdint>
#include <vector>

#include "fakes/model_transport.h"

namespace rig {

// Everything lies in the vGPU's VRAM at fixed offsets; the GPU's addresses 0 .. 2 MiB are mapped
// page by page. Channel c is alone in TSG c.
class RawGuest {
 public:
  static constexpr uint64_t kRoot = 0x10000;
  static constexpr uint64_t kPageTable = 0x14000;  // of GPU addresses 0 .. 2 MiB
  static constexpr uint64_t kInstance = 0x20000;   // + 4 KiB per channel
  static constexpr uint64_t kUserd = 0x30000;      // + 512 per channel
  static constexpr uint64_t kRing = 0x40000;       // + 4 KiB per channel; GPU address is the same
  static constexpr uint64_t kPush = 0x50000;       // + 4 KiB per channel; GPU address is the same
  static constexpr uint64_t kList = 0x60000;       // + 4 KiB per runlist
  static constexpr uint64_t kFaults = 0x70000;
  static constexpr uint64_t kData = 0x80000;  // 64 KiB of VRAM, mapped at the same address
  static constexpr uint32_t kFaultEntries = 128;

  // Interrupts and fault buffer set up, tables for the areas above, nothing bound.
  explicit RawGuest(fakes::GuestHardware& machine);

  uint32_t Read(uint32_t offset) { return machine_.Read32(offset); }
  void Write(uint32_t offset, uint32_t value) { machine_.Write32(offset, value); }
  uint32_t Vram32(uint64_t offset);
  void SetVram32(uint64_t offset, uint32_t value);
  void SetVram64(uint64_t offset, uint64_t value);

  // PTEs for GPU address `va` < 2 MiB, 4 KiB.
  void MapVram(uint64_t va, uint64_t offset) { SetPte(va, 0x1 | offset >> 12 << 8); }
  void MapSystem(uint64_t va, uint64_t gpa) { SetPte(va, 0x5 | gpa >> 12 << 8); }
  void SetPte(uint64_t va, uint64_t pte) { SetVram64(kPageTable + va / 4096 * 8, pte); }
  // TLB invalidate of everything; waits.
  void Invalidate();

  // Instance block as the guest driver writes it. `config`: RAMFC CONFIG.
  void WriteInstance(uint32_t channel, uint32_t config = 0);
  void Bind(uint32_t channel);
  void Enable(uint32_t channel);
  // Submits a list of these channels and waits until it is fetched.
  void Submit(uint32_t runlist, const std::vector<uint32_t>& channels);
  // All of the above.
  void StartChannel(uint32_t channel, uint32_t runlist, uint32_t config = 0);

  // Appends methods as one segment and rings the doorbell.
  void Push(uint32_t channel, uint32_t runlist, const std::vector<uint32_t>& words);
  void Ring(uint32_t channel, uint32_t runlist);
  // Lets time pass until the word is there; false after `ms` milliseconds.
  bool WaitVram32(uint64_t offset, uint32_t value, uint32_t ms = 20);

  // Host method words: header of an incrementing run on sub-channel 0.
  static uint32_t Inc(uint32_t method, uint32_t count, uint32_t subchannel = 0) {
    return 1u << 29 | count << 16 | subchannel << 13 | method / 4;
  }
  // Semaphore release of 32 bits by host methods.
  static std::vector<uint32_t> Release(uint64_t va, uint32_t value);
  // A copy on a copy runlist (sub-channel 4), then a one-word release.
  static std::vector<uint32_t> Copy(uint64_t from, uint64_t to, uint32_t bytes, uint64_t semaphore,
                                    uint32_t value);

  // Fault packets that arrived since the last call.
  std::vector<std::vector<uint32_t>> TakeFaults();

 private:
  fakes::GuestHardware& machine_;
  std::vector<uint32_t> put_ = std::vector<uint32_t>(16);
  std::vector<uint32_t> pushed_ = std::vector<uint32_t>(16);
  uint32_t fault_get_ = 0;
};

}  // namespace rig
