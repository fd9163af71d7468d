// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Which BAR0 register of a vGPU is served how. The table is the whole truth: what is not in it
// reads 0 and drops writes.
#pragma once

#include <cstdint>

namespace turnstile {

enum class CsrKind : uint8_t {
  kDenied,    // reads 0, drops writes
  kMirrored,  // reads the physical register: constants and the time. Drops writes
  kStored,    // a word of the vGPU's own with a write mask; nothing else happens
  kHandled,   // the part named by `part` does it
};

enum class CsrPart : uint8_t {
  kNone,
  kIdentity,  // constants that differ for a vGPU
  kPmc,
  kTree,     // interrupt tree
  kFifo,     // PFIFO
  kChannel,  // PCCSR
  kPbdma,
  kMmu,   // invalidate, fault buffers
  kCopy,  // LCE interrupts
  kDoorbell,
  kTime,    // FUNCTION_TIME
  kConfig,  // config space mirror
  kPramin,
  kMsix,  // table and PBA
};

struct CsrRange {
  uint32_t first;  // byte offset, multiple of 4
  uint32_t bytes;  // multiple of 4
  CsrKind kind;
  CsrPart part;
  uint16_t slot;        // kStored: its first word
  uint32_t write_mask;  // kStored
  uint32_t reset;       // kStored
};

// Words that kStored registers need.
inline constexpr uint32_t kStoredWords = 64;

// The range that holds `offset`, or null. O(log n), no lock, any context.
const CsrRange* FindCsr(uint32_t offset);

// The physical driver's name of a register in the function window (BAR0 + 0xb80000); other offsets
// stay as they are.
uint32_t CanonicalCsr(uint32_t offset);

// Power-on values.
void ResetStored(uint32_t (&words)[kStoredWords]);

// Named words in the stored array that other parts read.
enum StoredSlot : uint16_t {
  kSlotBar0Window = 1,
};

}  // namespace turnstile
