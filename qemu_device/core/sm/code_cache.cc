// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sm/code_cache.h"

#include <algorithm>
#include <cstring>

namespace sm {

CodeCache::CodeCache(const void* const* handlers) : handlers_(handlers) {}

Op CodeCache::MakeOp(const Decoded& decoded) const {
  return {handlers_[static_cast<size_t>(decoded.opcode)],
          decoded.rd,
          decoded.rs1,
          decoded.rs2,
          decoded.rs3,
          decoded.imm};
}

bool CodeCache::Fetch(SmMemory& memory, uint64_t pc, std::span<uint32_t> words,
                      uint8_t& fault_type) const {
  const Translation translation = memory.Translate(pc, Access::kFetch);
  switch (translation.kind) {
    case Translation::Kind::kPage:
      std::memcpy(words.data(), translation.page + (pc & kPageMask), words.size_bytes());
      return true;
    case Translation::Kind::kSlow:
      fault_type = kFaultTypeRegionViolation;
      return memory.ReadSlow(pc, std::as_writable_bytes(words));
    case Translation::Kind::kFault: break;
  }
  fault_type = translation.fault_type;
  return false;
}

Block* CodeCache::Decode(SmMemory& memory, uint64_t pc, bool dynamic_is_slow, uint32_t limit,
                         uint8_t& fault_type) {
  std::array<uint32_t, kMaxBlockInstructions> words;
  const auto left_in_page = static_cast<uint32_t>((kPageSize - (pc & kPageMask)) / 4);
  limit = std::min({limit, left_in_page, kMaxBlockInstructions});
  if (!Fetch(memory, pc, std::span(words).first(limit), fault_type)) return nullptr;
  scratch_ = Block{pc, 0, dynamic_is_slow, {}, scratch_ops_.data()};
  bool ended = false;
  while (scratch_.count < limit && !ended) {
    const Decoded decoded = sm::Decode(words[scratch_.count], dynamic_is_slow);
    scratch_ops_[scratch_.count++] = MakeOp(decoded);
    ended = decoded.ends_block;
  }
  if (!ended) scratch_ops_[scratch_.count] = MakeOp({.opcode = Opcode::kFallthrough});
  return &scratch_;
}

Block* CodeCache::Find(uint64_t pc, bool dynamic_is_slow) const {
  const auto found = blocks_.find(Key(pc, dynamic_is_slow));
  return found == blocks_.end() ? nullptr : found->second.get();
}

Block* CodeCache::Insert(const Block& block, bool& flushed) {
  const size_t ops = block.count + 1;
  flushed = op_count_ + ops > kMaxOps;
  if (flushed) Flush();
  auto copy = std::make_unique<Block>(block);
  copy->ops = AllocateOps(ops);
  std::copy_n(block.ops, ops, copy->ops);
  auto& place = blocks_[Key(block.pc, block.dynamic_is_slow)];
  place = std::move(copy);
  return place.get();
}

Op* CodeCache::AllocateOps(size_t count) {
  if (chunk_used_ + count > kChunkOps) {
    chunks_.push_back(std::make_unique<Op[]>(kChunkOps));
    chunk_used_ = 0;
  }
  Op* const ops = chunks_.back().get() + chunk_used_;
  chunk_used_ += count;
  op_count_ += count;
  return ops;
}

void CodeCache::Flush() {
  blocks_.clear();
  // The first chunk stays: nearly every program fits into it, and each launch flushes.
  if (chunks_.size() > 1) chunks_.resize(1);
  chunk_used_ = chunks_.empty() ? kChunkOps : 0;
  op_count_ = 0;
}

}  // namespace sm
