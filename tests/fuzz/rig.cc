// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The whole stack: a guest that works and one that is driven by the fuzzer, on one GPU. The first
// must not notice: its results, its memory, how long it waits.
#include <cstring>

#include "fuzz/entry.h"
#include "fuzz/hostile.h"
#include "ts104/regs.h"

namespace fuzz {

namespace {

using rig::RawGuest;

constexpr uint32_t kRunlist = 1;
constexpr uint64_t kSystemVa = 0x100000;  // mapped to kGpa
constexpr uint64_t kGpa = 0x4000;
constexpr uint32_t kBytes = 2048;
constexpr uint64_t kSecretAt = 0x100000;  // in VRAM: from here on it uses nothing
// A neighbour has at most four TSGs with timeslices of at most 4.2 ms, or its slice of a policy; a
// program that cannot be preempted is dropped after 1 ms; context switches come on top.
constexpr uint64_t kLongestWaitNs = 30'000'000;
constexpr uint64_t kStepNs = 100'000;

class Sane {
 public:
  explicit Sane(rig::ModelGpu& gpu)
      : gpu_(gpu), machine_(gpu, rig::VgpuMachine::kV16, 64), guest_(machine_) {
    std::memset(machine_.vram() + kSecretAt, kSecret, machine_.vram_bytes() - kSecretAt);
    std::memset(machine_.host().At(0), kSecret, machine_.host().memory.size());
    guest_.MapSystem(kSystemVa, kGpa);
    guest_.Invalidate();
    guest_.StartChannel(0, kRunlist);
    machine_.TakeInterrupts();
  }

  // A copy from system memory to VRAM and its result.
  void Work() {
    ++round_;
    for (uint32_t i = 0; i < kBytes; i += 4) machine_.host().Store32(kGpa + i, round_ * 77 + i);
    guest_.Push(0, kRunlist,
                RawGuest::Copy(kSystemVa, RawGuest::kData + 4096, kBytes, RawGuest::kData, round_));
    const uint64_t begin = gpu_.now_ns;
    while (guest_.Vram32(RawGuest::kData) != round_) {
      FUZZ_CHECK(gpu_.now_ns - begin < kLongestWaitNs, "the neighbour waits too long");
      machine_.Advance(kStepNs);
    }
    FUZZ_CHECK(std::memcmp(machine_.vram() + RawGuest::kData + 4096, machine_.host().At(kGpa),
                           kBytes) == 0,
               "the neighbour's copy is wrong");
    CheckDevice(gpu_);
  }

  void CheckUntouched() {
    FUZZ_CHECK(guest_.TakeFaults().empty(), "the neighbour has a fault");
    FUZZ_CHECK(guest_.Read(NV_PFIFO_INTR_PBDMA_ID) == 0, "the neighbour has a PBDMA error");
    FUZZ_CHECK(AllSecret(machine_.vram() + kSecretAt, machine_.vram_bytes() - kSecretAt),
               "the neighbour's VRAM has changed");
    const auto& memory = machine_.host().memory;
    const uint64_t end = kGpa + kBytes;
    FUZZ_CHECK(
        AllSecret(memory.data(), kGpa) && AllSecret(memory.data() + end, memory.size() - end),
        "the neighbour's memory has changed");
  }

 private:
  static constexpr uint8_t kSecret = 0x5a;

  // A byte like the first, and each like the one before.
  static bool AllSecret(const uint8_t* bytes, uint64_t size) {
    return bytes[0] == kSecret && std::memcmp(bytes, bytes + 1, size - 1) == 0;
  }

  rig::ModelGpu& gpu_;
  rig::VgpuMachine machine_;
  RawGuest guest_;
  uint32_t round_ = 0;
};

}  // namespace

void FuzzRig(Input& input) {
  constexpr rig::RigConfig kSlow = {64u << 20, 100, 1, 5};
  rig::ModelGpu gpu(kSlow);
  FUZZ_CHECK(ts_gpu_set_policy(gpu.core, ts_policy_name(input.U8() % 3)) == 0, "policy");
  ts_gpu_set_sched_param(gpu.core, TS_SCHED_CTXSW_TIMEOUT_MS, 1);
  Sane sane(gpu);
  Hostile hostile(gpu);
  for (uint32_t channel = 0; channel < 3; ++channel) hostile.StartChannel(channel, channel);
  static constexpr void (*kSteps[])(Hostile&, Input&) = {
      StepCsr, StepPageTables, StepChannels, StepPushBuffer, StepProgram, StepVfio};
  uint32_t steps = 0;
  while (!input.empty()) {
    kSteps[input.Below(std::size(kSteps))](hostile, input);
    if (++steps % 16 == 0) sane.Work();
  }
  sane.Work();
  CheckDumps(hostile);
  hostile.Finish();
  sane.Work();
  sane.CheckUntouched();
}

}  // namespace fuzz
