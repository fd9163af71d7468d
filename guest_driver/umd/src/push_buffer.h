// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Encodings of what the PBDMA reads: method headers and GP entries (register_map.md, NVC46F_DMA and
// NVC46F_GP_ENTRY).
#pragma once

#include <cstdint>

#include "ts104/regs.h"
#include "ts104/typed.h"

namespace libts104 {

inline constexpr uint32_t kSubchannelCompute = 1;
inline constexpr uint32_t kSubchannelCopy = 4;
inline constexpr uint32_t kMaxMethodCount = 0x1fff;

// `count` data words follow and go to `method`, `method` + 4, ...; method is a byte offset.
constexpr uint32_t IncHeader(uint32_t subchannel, uint32_t method, uint32_t count) {
  using Dma = ts104::host_methods::Dma;
  Dma header;
  header.Set<Dma::SecOp>(Dma::kSecOpIncMethod).Set<Dma::MethodCount>(count);
  header.Set<Dma::MethodSubchannel>(subchannel).Set<Dma::MethodAddress>(method >> 2);
  return header.raw();
}

// As IncHeader, but all words go to the same method.
constexpr uint32_t NonIncHeader(uint32_t subchannel, uint32_t method, uint32_t count) {
  using Dma = ts104::host_methods::Dma;
  return Dma(IncHeader(subchannel, method, count)).Set<Dma::SecOp>(Dma::kSecOpNonIncMethod).raw();
}

// One method whose 13-bit data is in the header.
constexpr uint32_t ImmediateHeader(uint32_t subchannel, uint32_t method, uint32_t data) {
  using Dma = ts104::host_methods::Dma;
  return Dma(IncHeader(subchannel, method, data)).Set<Dma::SecOp>(Dma::kSecOpImmdDataMethod).raw();
}

// A segment of `words` dwords (1 .. 2^21 - 1) at `va` (multiple of 4, below 2^40).
constexpr uint64_t GpEntry(uint64_t va, uint32_t words) {
  using Entry = ts104::host_methods::GpEntry;
  Entry entry;
  entry.Set<Entry::Entry0Get>(static_cast<uint32_t>(va) >> 2);
  entry.Set<Entry::Entry1GetHi>(va >> 32).Set<Entry::Entry1Length>(words);
  return entry.raw();
}

}  // namespace libts104
