// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A guest in the fuzzer's hands, and what must hold whatever it does.
#pragma once

#include <cstdint>
#include <string>

#include "fuzz/input.h"
#include "rig/raw_guest.h"
#include "rig/rig.h"

namespace fuzz {

// Says what is wrong and ends the process in the way that fuzzers and sanitizers end it.
[[noreturn]] void Fail(const char* file, int line, const std::string& what);
#define FUZZ_CHECK(condition, text)                                                            \
  do {                                                                                         \
    if (!(condition)) ::fuzz::Fail(__FILE__, __LINE__, std::string(#condition ": ") + (text)); \
  } while (false)

// Small and quick: 16 vGPUs of 4 MiB and 256 channels.
inline constexpr rig::RigConfig kGpu = {64u << 20, 1000, 1, 5};

// A vGPU of which the fuzzer owns everything. Its memory: RawGuest's areas below 0x90000, a pool of
// 4 KiB pages in VRAM and one in system memory.
class Hostile {
 public:
  static constexpr uint32_t kMemoryPages = 128;  // of system memory
  static constexpr uint64_t kPool = 0x100000;    // kPoolPages of VRAM
  static constexpr uint64_t kSysPool = 0x10000;  // as many, guest-physical
  static constexpr uint32_t kPoolPages = 64;
  static constexpr uint64_t kContext = 0x200000;  // GR context images, one per channel 0..3
  static constexpr uint32_t kChannels = 4;

  explicit Hostile(rig::ModelGpu& gpu, rig::VgpuMachine::Type type = rig::VgpuMachine::kV16);

  // One exit. The work that the host did in it is judged.
  int Access(uint32_t region, uint64_t offset, void* buffer, size_t length, bool write);
  uint32_t Read(uint32_t offset);
  void Write(uint32_t offset, uint32_t value);
  // The doorbell page, which does not exit.
  void Ring(uint32_t token);
  void Unmap(uint64_t start, uint64_t length);
  void Advance(uint64_t ns);
  // A word of VRAM or of system memory, wherever it exists.
  void Store32(bool system, uint64_t address, uint32_t value);
  void Store64(bool system, uint64_t address, uint64_t value);
  // Channel 0..3 bound, enabled, in a list of `runlist`, with a GR context.
  void StartChannel(uint32_t channel, uint32_t runlist, uint32_t config = 0);

  // The channel's faults and those of the PBDMA are cleared; it is enabled again.
  void Recover(uint32_t channel, uint32_t pbdma);
  // The channel stopped, unbound after `ns`, and started anew.
  void Restart(uint32_t channel, uint32_t runlist, uint64_t ns);

  // After everything: closes the vGPU, nothing of it is left, the device touched nothing foreign.
  void Finish();

  rig::ModelGpu& gpu() { return gpu_; }
  // The device's id of its channel 0. Its window may be off by now, the ids are its own for life.
  uint32_t first_channel() const { return first_channel_; }
  rig::VgpuMachine& machine() { return machine_; }
  rig::RawGuest& guest() { return guest_; }

 private:
  rig::ModelGpu& gpu_;
  uint64_t dma_bytes_before_;
  rig::VgpuMachine machine_;
  uint64_t memory_bytes_open_;
  rig::RawGuest guest_;
  const uint32_t first_channel_;
};

// Checks after every step that no access of the device was foreign.
void CheckDevice(rig::ModelGpu& gpu);
// What the driver tells of the vGPU, whatever state it is in: all that is pinned, and nothing in
// the shadow but its partition and pinned pages.
void CheckDumps(Hostile& hostile);

// One step of each kind of mischief. A step reads a few bytes of the input.
void StepCsr(Hostile& hostile, Input& input);
void StepPageTables(Hostile& hostile, Input& input);
void StepChannels(Hostile& hostile, Input& input);
void StepPushBuffer(Hostile& hostile, Input& input);
void StepProgram(Hostile& hostile, Input& input);
void StepVfio(Hostile& hostile, Input& input);

// Steps until the input is used up, then CheckDumps and Finish.
void Drive(Hostile& hostile, Input& input, void (*step)(Hostile&, Input&));

}  // namespace fuzz
