// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Instance blocks, runlists, USERD, doorbells, and the registers that start and stop channels.
#include "fuzz/entry.h"
#include "fuzz/hostile.h"
#include "ts104/regs.h"

namespace fuzz {

namespace {

using rig::RawGuest;

constexpr uint32_t kManyChannels = 256;

// Words of an instance block that mean something; others are reached by StepChannels as well.
constexpr uint32_t kWords[] = {
    NV_RAMFC_USERD,
    NV_RAMFC_USERD_HI,
    NV_RAMFC_SIGNATURE,
    NV_RAMFC_GP_BASE,
    NV_RAMFC_GP_BASE_HI,
    NV_RAMFC_GP_GET,
    NV_RAMFC_CONFIG,
    NV_RAMFC_SUBDEVICE,
    NV_RAMFC_PB_HEADER,
    NV_RAMFC_ACQUIRE,
    NV_RAMFC_SET_CHANNEL_INFO,
    NV_RAMIN_PAGE_DIR_BASE,
    NV_RAMIN_PAGE_DIR_BASE_HI,
    NV_RAMIN_ENGINE_WFI_PTR,
    NV_RAMIN_ENGINE_WFI_PTR_HI,
};

uint64_t InstanceAt(uint32_t channel) { return RawGuest::kInstance + channel * TS_PAGE_SIZE; }

void WriteWord(Hostile& hostile, Input& input, uint32_t channel) {
  const uint32_t word = input.OneIn(2) ? input.Pick(kWords) : input.Below(1024) * 4;
  hostile.Store32(false, InstanceAt(channel) + word, input.Word());
}

void PlaceUserd(Hostile& hostile, Input& input, uint32_t channel) {
  const uint64_t page = input.Below(Hostile::kPoolPages);
  const bool system = input.OneIn(2);
  const uint64_t at =
      (system ? Hostile::kSysPool : Hostile::kPool) + page * TS_PAGE_SIZE + input.Below(8) * 512;
  hostile.Store32(false, InstanceAt(channel) + NV_RAMFC_USERD,
                  static_cast<uint32_t>(at) | (system ? 2 : 0));
  hostile.Store32(false, InstanceAt(channel) + NV_RAMFC_USERD_HI, 0);
  hostile.Store32(system, at + NV_USERD_GP_PUT, input.Below(64));
}

// TSGs and channels, mostly well formed.
void WriteList(Hostile& hostile, Input& input, uint32_t runlist) {
  const bool system = input.OneIn(4);
  uint64_t at = system ? Hostile::kSysPool : RawGuest::kList + runlist * TS_PAGE_SIZE;
  const uint64_t base = at;
  const uint32_t tsgs = input.Below(5);
  uint32_t entries = 0;
  const auto put = [&](uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    for (const uint32_t word : {a, b, c, d}) {
      hostile.Store32(system, at, word);
      at += 4;
    }
    ++entries;
  };
  for (uint32_t i = 0; i < tsgs; ++i) {
    const uint8_t shape = input.U8();
    const uint32_t length = shape & 3;
    const uint32_t header = 1 | uint32_t{shape >> 2 & 0xfu} << 16 | uint32_t{shape} << 24;
    put((shape & 0xc0) == 0xc0 ? input.Word() : header, length, input.Below(kManyChannels), 0);
    for (uint32_t c = 0; c < length; ++c) {
      put((shape & 0x3c) == 0x3c ? input.Word() : 0, 0, input.Below(Hostile::kChannels + 2), 0);
    }
  }
  hostile.Write(NV_PFIFO_RUNLIST_BASE_LO(runlist),
                input.OneIn(8) ? input.Word() : static_cast<uint32_t>(base) | (system ? 2 : 0));
  hostile.Write(NV_PFIFO_RUNLIST_BASE_HI(runlist), input.OneIn(8) ? input.Word() : 0);
  hostile.Write(NV_PFIFO_RUNLIST_SUBMIT(runlist),
                input.OneIn(8) ? input.Word() : entries | input.Below(16) << 16);
}

}  // namespace

void StepChannels(Hostile& hostile, Input& input) {
  const uint8_t kind = input.U8();
  const uint32_t channel = kind >> 4 & 3;
  const uint32_t runlist = (kind >> 6) % 3;
  switch (kind % 16) {
    case 0: WriteWord(hostile, input, channel); return;
    case 1: PlaceUserd(hostile, input, channel); return;
    case 2:
      hostile.Write(NV_PCCSR_CHANNEL_INST(channel),
                    input.OneIn(4) ? input.Word()
                                   : 1u << 31 | static_cast<uint32_t>(InstanceAt(channel) >> 12));
      return;
    case 3: hostile.Write(NV_PCCSR_CHANNEL_INST(channel), 0); return;
    case 4: hostile.Write(NV_PCCSR_CHANNEL(channel), 1u << 10); return;
    case 5:
      hostile.Write(NV_PCCSR_CHANNEL(channel), input.OneIn(2) ? 1u << 11 : input.Word());
      return;
    case 6: WriteList(hostile, input, runlist); return;
    case 7: hostile.Ring(input.OneIn(4) ? input.Word() : channel | runlist << 16); return;
    case 8: {
      const uint64_t va = input.OneIn(4) ? input.Value() : RawGuest::kData;
      hostile.guest().Push(channel, runlist, RawGuest::Release(va, 1));
      return;
    }
    case 9: hostile.Advance(uint64_t{1000} << (input.U8() % 10)); return;
    case 10: hostile.Write(NV_PFIFO_RUNLIST_PREEMPT, input.U8()); return;
    case 11:
      hostile.Write(NV_PFIFO_PREEMPT, input.OneIn(2) ? channel | 1u << 24 : input.Word());
      return;
    case 12: hostile.Write(NV_PFIFO_SCHED_DISABLE, input.U8()); return;
    case 13: hostile.Write(NV_PMC_ENABLE, input.OneIn(2) ? ~0u : ~(1u << input.Below(32))); return;
    case 14: {
      const uint32_t pbdma = runlist;
      hostile.Write(NV_PPBDMA_INTR_0(pbdma), ~0u);
      hostile.Write(NV_PPBDMA_INTR_1(pbdma), ~0u);
      return;
    }
    default: {
      const uint64_t start = Hostile::kSysPool + uint64_t{input.Below(Hostile::kPoolPages)} * 4096;
      hostile.Unmap(start, uint64_t{input.U8()} << 12);
      return;
    }
  }
}

void FuzzChannels(Input& input) {
  rig::ModelGpu gpu(kGpu);
  Hostile hostile(gpu);
  for (uint32_t channel = 0; channel < Hostile::kChannels; ++channel) {
    hostile.guest().WriteInstance(channel);
  }
  static const char* const kPolicies[] = {"best_effort", "equal_share", "fixed_share"};
  FUZZ_CHECK(ts_gpu_set_policy(gpu.core, input.Pick(kPolicies)) == 0, "policy");
  Drive(hostile, input, StepChannels);
}

}  // namespace fuzz
