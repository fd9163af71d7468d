// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// GP entries, headers and methods of Host, copy engines and GR, through the model.
#include <vector>

#include "fuzz/entry.h"
#include "fuzz/hostile.h"
#include "ts104/regs.h"

namespace fuzz {

namespace {

using rig::RawGuest;

constexpr uint32_t kPrivileged = 1u << NV_RAMFC_CONFIG_AUTH_LEVEL__LO;

constexpr uint32_t kHostMethods[] = {
    NVC46F_SEM_ADDR_LO,   NVC46F_SEM_ADDR_HI, NVC46F_SEM_PAYLOAD_LO, NVC46F_SEM_PAYLOAD_HI,
    NVC46F_SEM_EXECUTE,   NVC46F_MEM_OP_A,    NVC46F_MEM_OP_D,       NVC46F_CLEAR_FAULTED,
    NVC46F_WFI,           NVC46F_YIELD,       NVC46F_SET_OBJECT,     NVC46F_NON_STALL_INTERRUPT,
    NVC46F_SET_REFERENCE,
};
constexpr uint32_t kCopyMethods[] = {
    NVC5B5_OFFSET_IN_UPPER,   NVC5B5_OFFSET_OUT_UPPER, NVC5B5_PITCH_IN,
    NVC5B5_LINE_LENGTH_IN,    NVC5B5_LINE_COUNT,       NVC5B5_SET_SEMAPHORE_A,
    NVC5B5_SET_REMAP_CONST_A, NVC5B5_LAUNCH_DMA,       NVC5B5_SET_REMAP_COMPONENTS,
};
constexpr uint32_t kComputeMethods[] = {
    NVC5C0_SET_NOTIFY_A,
    NVC5C0_LINE_LENGTH_IN,
    NVC5C0_OFFSET_OUT_UPPER,
    NVC5C0_LAUNCH_DMA,
    NVC5C0_LOAD_INLINE_DATA,
    NVC5C0_SEND_PCAS_A,
    NVC5C0_INVALIDATE_SHADER_CACHES,
    NVC5C0_WAIT_FOR_IDLE,
    NVC5C0_NOTIFY,
};

uint32_t Method(Input& input, uint32_t runlist) {
  switch (input.Below(4)) {
    case 0: return input.Pick(kHostMethods);
    case 1: return runlist == 0 ? input.Pick(kComputeMethods) : input.Pick(kCopyMethods);
    case 2: return input.Pick(kCopyMethods);
    default: return input.U16() & 0x3ffcu;
  }
}

uint32_t Header(Input& input, uint32_t runlist) {
  const uint8_t shape = input.U8();
  if (shape >= 0xf0) return input.U32();
  static constexpr uint32_t kOps[] = {1, 1, 3, 5, 4, 0, 2, 7};
  static constexpr uint32_t kSubchannels[] = {0, 1, 4, 2};
  const uint32_t count = 1 + (shape >> 5 & 3);
  return kOps[shape % 8] << 29 | count << 16 | kSubchannels[shape >> 3 & 3] << 13 |
         Method(input, runlist) / 4;
}

// Addresses mostly where something is mapped.
uint32_t Data(Input& input) {
  const uint8_t choice = input.U8();
  if (choice < 0x60) return choice % 16;
  if (choice < 0xa0) return static_cast<uint32_t>(RawGuest::kData) + (choice & 0x1fu) * 16;
  if (choice < 0xc0) return static_cast<uint32_t>(RawGuest::kRing) + (choice & 0x1fu) * 4;
  return input.Word();
}

}  // namespace

void StepPushBuffer(Hostile& hostile, Input& input) {
  const uint8_t kind = input.U8();
  const uint32_t channel = kind % 3;  // on the runlist of the same number
  switch (kind >> 4) {
    case 0: hostile.Advance(uint64_t{1000} << (input.U8() % 12)); return;
    case 1: {
      // A GP entry of any form.
      hostile.Store64(false, RawGuest::kRing + channel * TS_PAGE_SIZE + input.Below(64) * 8,
                      input.U64());
      hostile.Store32(false, RawGuest::kUserd + channel * 512 + NV_USERD_GP_PUT, input.Below(80));
      hostile.Ring(channel | channel << 16);
      return;
    }
    case 2: hostile.Recover(channel, channel); return;
    case 3: hostile.Restart(channel, channel, 300'000); return;
    case 4:
      hostile.guest().Push(
          channel, channel,
          RawGuest::Copy(RawGuest::kData + input.U8() * 16u, RawGuest::kData + input.U8() * 16u,
                         input.U16(), RawGuest::kData, 1));
      return;
    case 5: {
      // As method of the host, or answer to the interrupt that it raised.
      hostile.Write(NV_PPBDMA_METHOD0(channel), input.Word());
      hostile.Write(NV_PPBDMA_DATA0(channel), input.Word());
      return;
    }
    default: {
      std::vector<uint32_t> words;
      for (uint32_t methods = 1 + input.Below(4); methods > 0; --methods) {
        const uint32_t header = Header(input, channel);
        words.push_back(header);
        for (uint32_t i = 0; i < (header >> 16 & 0x1f) && i < 8; ++i) words.push_back(Data(input));
      }
      // The push buffer of a channel is a page; it starts over before its end.
      hostile.guest().Push(channel, channel, words);
      hostile.Advance(20'000);
      return;
    }
  }
}

void FuzzPushBuffer(Input& input) {
  rig::ModelGpu gpu(kGpu);
  Hostile hostile(gpu);
  const uint32_t config = input.OneIn(2) ? kPrivileged : 0;
  for (uint32_t channel = 0; channel < 3; ++channel) {
    hostile.StartChannel(channel, channel, config);
  }
  Drive(hostile, input, StepPushBuffer);
}

}  // namespace fuzz
