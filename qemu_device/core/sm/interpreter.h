// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Runs one GPU thread at a time: threaded code over decoded blocks and a software TLB.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sm/code_cache.h"
#include "sm/software_tlb.h"
#include "sm/thread_state.h"

namespace sm {

static_assert(std::endian::native == std::endian::little, "GPU memory is little endian");

// A range of addresses that is no GMMU memory at these addresses. Bounds are exact to the byte.
class MemoryWindow {
 public:
  MemoryWindow() = default;
  // `guard`: as many addresses below `base` belong to the window too, and to no memory.
  MemoryWindow(uint64_t base, uint32_t size, uint64_t guard) : base_(base), guard_(guard) {
    for (uint32_t log = 0; log < starts_.size(); ++log) {
      const uint32_t bytes = uint32_t{1} << log;
      starts_[log] = size < bytes ? 0 : size - bytes + 1;
    }
  }

  uint64_t Offset(uint64_t va) const { return va - base_; }
  // Does an access of `kSize` bytes (1, 2, 4 or 8) at this offset stay inside the memory?
  template <uint64_t kSize>
  bool Holds(uint64_t offset) const {
    return offset < starts_[std::countr_zero(kSize)];
  }
  // Is `va` in the address range reserved for the window, inside the memory or not?
  bool Covers(uint64_t va) const { return va - base_ + guard_ < kWindowExtent + guard_; }

 private:
  uint64_t base_ = 0;
  uint64_t guard_ = 0;
  std::array<uint32_t, 4> starts_{};  // by log2 of the size: how many offsets an access may have
};

// What is the same for all threads of a CTA while it runs, but for local_memory.
struct CtaView {
  const Launch* launch = nullptr;
  Dim3 cta;
  uint32_t sm = 0;
  uint64_t start_cycle = 0;  // of the SM, when this turn began
  MemoryWindow shared;
  MemoryWindow local;
  std::byte* shared_memory = nullptr;
  uint64_t local_memory = 0;  // GPU address behind the current thread's local window
};

enum class RunExit : uint8_t {
  kBudget,   // the budget is used up, the thread can go on
  kExit,     // ecall 0
  kBarrier,  // ecall 1; x[10] is the barrier id, pc is already behind the call
  kStop,     // MMU fault or SM exception in stop(); pc is at the instruction
};

// One interpreter serves any number of grids, one after the other, on one host thread. It holds
// nothing of the architectural state, only caches.
class Interpreter {
 public:
  Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Call at the start of every quantum, before Run: forgets every cached translation and decoded
  // instruction if `context_id` or the memory's generation is not the one of the last quantum.
  // `memory` must live until the next Bind or the interpreter's end.
  void Bind(uint64_t context_id, SmMemory& memory);
  // Forgets decoded instructions: the program may have been changed (a launch, an instruction
  // cache invalidate).
  void InvalidateCode();

  // Runs `thread` for at most `budget` instructions and lowers `budget` by those retired. The
  // caller holds a HostFloat. `view.local_memory` is this thread's.
  RunExit Run(ThreadState& thread, const CtaView& view, uint64_t& budget);

  // Valid after kStop; SM, CTA and thread are filled in too.
  const StopRecord& stop() const { return stop_; }

 private:
  static constexpr size_t kJumpCacheEntries = 1024;

  // The dispatch loop. With `thread` == nullptr it only publishes handlers_: the addresses of its
  // labels are known inside it alone.
  RunExit Execute(ThreadState* thread, int64_t* budget);
  const void* const* PublishHandlers();
  // Finds or decodes; nullptr: stopped. `flushed` tells that all older blocks are gone.
  Block* Lookup(uint64_t pc, bool& flushed);
  Block* DecodeShort(uint64_t pc, int64_t budget);
  // The word at `pc`, for the record of an illegal instruction.
  uint32_t ReadInstruction(uint64_t pc);
  void RaiseFault(uint64_t va, Access access, uint8_t fault_type);

  template <typename T>
  [[gnu::always_inline]] inline bool Load(uint64_t va, T& value);
  template <typename T>
  [[gnu::always_inline]] inline bool Store(uint64_t va, T value);
  [[gnu::noinline]] bool LoadSlow(uint64_t va, std::byte* data, uint64_t size);
  [[gnu::noinline]] bool StoreSlow(uint64_t va, const std::byte* data, uint64_t size);
  // Asks the GMMU for one page; `host` is the address of `va` or nullptr when the page has none.
  bool Reach(uint64_t va, Access access, std::byte*& host);
  // False with an exception raised when a window covers `va` (the access did not fit into it).
  bool OutsideWindows(uint64_t va);

  // Atomics. `T` is int32_t or int64_t; false: stopped.
  template <typename T>
  bool AtomicOperand(uint64_t& va, std::byte*& host, bool& is_page);
  template <typename T>
  bool ReadOperand(uint64_t va, const std::byte* host, bool is_page, T& value);
  // Compare and exchange; `expected` becomes the value seen.
  template <typename T>
  bool ReplaceOperand(uint64_t va, std::byte* host, bool is_page, T& expected, T desired,
                      bool& replaced);
  template <typename T>
  bool Amo(uint32_t funct5, uint64_t va, uint64_t operand, uint64_t& old_value);
  template <typename T>
  bool LoadReserved(uint64_t va, uint64_t& value);
  template <typename T>
  bool StoreConditional(uint64_t va, uint64_t value, uint64_t& failed);

  // Executes a CSR instruction; false: illegal. `retired`: instructions of this Run before it.
  bool AccessCsr(const Op& op, uint64_t retired);
  bool ReadCsr(uint32_t csr, uint64_t retired, uint64_t& value);
  void WriteCsr(uint32_t csr, uint64_t value);
  uint64_t ReadId(uint32_t index) const;
  bool FpSlow(const Op& op);
  // Rounding mode of an instruction field, dynamic resolved; false: reserved, illegal.
  bool ResolveRounding(uint32_t field, uint32_t& mode) const;
  void CollectFlags();
  void EnterRounding();
  void Raise(ExceptionKind kind, uint64_t address, uint64_t code);

  // Hot state first.
  SoftwareTlb tlb_;
  MemoryWindow shared_;
  MemoryWindow local_;
  std::byte* shared_memory_ = nullptr;
  uint64_t local_memory_ = 0;
  ThreadState* thread_ = nullptr;
  SmMemory* memory_ = nullptr;
  const CtaView* view_ = nullptr;
  bool dynamic_is_slow_ = false;
  bool host_rounding_changed_ = false;
  std::array<Block*, kJumpCacheEntries> jump_cache_{};
  const void* const* handlers_ = nullptr;
  CodeCache code_;
  uint64_t context_id_ = 0;
  uint64_t generation_ = 0;
  StopRecord stop_;
};

}  // namespace sm
