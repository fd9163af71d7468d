// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Decoded basic blocks, found by program counter and chained to each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sm/decoder.h"
#include "sm/sm_memory.h"

namespace sm {

// One instruction, ready to run: the handler's address and its operands.
struct Op {
  const void* handler = nullptr;
  uint8_t rd = 0;
  uint8_t rs1 = 0;
  uint8_t rs2 = 0;
  uint8_t rs3 = 0;
  int32_t imm = 0;
};
static_assert(sizeof(Op) == 16);

// A straight run of instructions within one page. ops[i] is the instruction at pc + 4*i; when the
// last one is no jump, ops[count] is a kFallthrough that is not counted.
struct Block {
  uint64_t pc = 0;
  uint32_t count = 0;
  bool dynamic_is_slow = false;  // decoded for a thread whose frm the host lacks
  std::array<Block*, 2> next{};  // [0] the jump's target, [1] the instruction after
  Op* ops = nullptr;
};

// Thread context: the thread that runs the quantum. A Block stays valid until Flush; Insert flushes
// by itself when the cache is full, so a caller holds no Block across Insert.
class CodeCache {
 public:
  static constexpr uint32_t kMaxBlockInstructions = 128;
  static constexpr size_t kMaxOps = size_t{1} << 18;  // 4 MiB of decoded code

  // `handlers[opcode]` is the address that executes an opcode.
  explicit CodeCache(const void* const* handlers);

  // Decodes from `pc` at most `limit` instructions into `scratch_` and returns that block, which
  // stays out of the index and is overwritten by the next call. Never returns nullptr for a page
  // that can be fetched; nullptr: `fault_type` says why.
  Block* Decode(SmMemory& memory, uint64_t pc, bool dynamic_is_slow, uint32_t limit,
                uint8_t& fault_type);

  Block* Find(uint64_t pc, bool dynamic_is_slow) const;
  // Copies a block made by Decode into the cache; `flushed` tells that all older blocks are gone.
  Block* Insert(const Block& block, bool& flushed);
  void Flush();

 private:
  static constexpr size_t kChunkOps = 4096;
  // Blocks start at multiples of 4, so bit 0 of the key is free.
  static uint64_t Key(uint64_t pc, bool dynamic_is_slow) { return pc | (dynamic_is_slow ? 1 : 0); }
  Op* AllocateOps(size_t count);
  Op MakeOp(const Decoded& decoded) const;
  // Reads `words` from the page of `pc`. False: fault.
  bool Fetch(SmMemory& memory, uint64_t pc, std::span<uint32_t> words, uint8_t& fault_type) const;

  const void* const* const handlers_;
  std::unordered_map<uint64_t, std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Op[]>> chunks_;
  size_t chunk_used_ = kChunkOps;
  size_t op_count_ = 0;
  Block scratch_;
  std::array<Op, kMaxBlockInstructions + 1> scratch_ops_;
};

}  // namespace sm
