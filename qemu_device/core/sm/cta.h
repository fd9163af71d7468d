// SPDX-License-Identifier: GPL-2.0-only OR MIT
// One cooperative thread array: its threads, shared and local memory, and barriers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sm/interpreter.h"
#include "sm/state_stream.h"

namespace sm {

enum class CtaExit : uint8_t { kBudget, kFinished, kStop };

// Lives in an SM's slot and is used for one CTA after the other of the same launch. Threads take
// turns: one runs until it waits, exits or has had kSliceInstructions, so that threads that spin on
// each other make progress, and decoded code and TLB stay warm meanwhile.
class Cta {
 public:
  static constexpr uint32_t kSliceInstructions = 4096;

  // `launch` must be valid and outlive the object.
  Cta(const Launch& launch, uint32_t sm);

  // Begins the CTA at `index`: all threads at the program's first instruction, shared memory
  // 0, local memory as the CTA before left it.
  void Start(Dim3 index);

  // Runs for at most `budget` instructions and lowers it by those retired. `start_cycle` is what
  // the cycle CSR counts from. After kStop the thread in question is unchanged: running again
  // tries its instruction again.
  CtaExit Run(Interpreter& interpreter, uint64_t start_cycle, uint64_t& budget);

  const StopRecord& stop() const { return stop_; }
  Dim3 index() const { return index_; }

  // Saved form; Load returns false for one that no running CTA can have.
  static size_t StateSize(const Launch& launch);
  void Save(StateWriter& writer) const;
  bool Load(StateReader& reader);

 private:
  void ResetThread(uint32_t linear);
  bool LoadThread(StateReader& reader, ThreadState& thread);
  uint64_t LocalMemory(uint32_t thread) const;
  CtaView MakeView(uint64_t start_cycle);
  // Next runnable thread from current_ on, current_ included; false: there is none.
  bool FindRunnable();
  bool ArriveAtBarrier(ThreadState& thread);
  void ReleaseIfComplete(uint32_t barrier);
  void ThreadExited(ThreadState& thread);
  void StopAt(const ThreadState& thread, ExceptionKind kind, uint64_t code);
  void StopForDeadlock();

  const Launch& launch_;
  const uint32_t sm_;
  const uint32_t thread_count_;
  Dim3 index_;
  std::vector<ThreadState> threads_;
  std::vector<std::byte> shared_;
  std::array<uint32_t, kMaxBarriers> waiting_{};  // threads at each barrier
  uint32_t live_ = 0;                             // threads that did not exit
  uint32_t current_ = 0;
  uint32_t slice_left_ = kSliceInstructions;
  StopRecord stop_;
};

}  // namespace sm
