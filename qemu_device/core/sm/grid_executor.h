// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Runs a launched grid on the SMs in quanta, and moves a half-finished one to memory and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sm/cta.h"
#include "sm/interpreter.h"

namespace sm {

enum class GridState : uint8_t {
  kRunning,    // more to do
  kFinished,   // every CTA has ended
  kDrained,    // draining: no CTA is live, some have not started
  kFault,      // an access the GMMU refused; stop() tells. Retry() makes it try again
  kException,  // an SM exception; stop() tells
};

struct QuantumResult {
  uint64_t instructions = 0;   // retired in this quantum, all SMs together
  uint64_t cycles = 0;         // by which the slowest SM moved on: the quantum's modelled time
  uint64_t ctas_finished = 0;  // in this quantum
  GridState state = GridState::kRunning;
};

// Cost model: each SM has one CTA at a time, spends 100 cycles on starting it and retires one
// instruction per cycle; free SMs take the next CTA in order x, y, z. The SM with the fewest cycles
// runs next, in turns of some thousand instructions, so the modelled time of a quantum can be off
// by a turn, and the sum over the quanta is exact: the most cycles any SM has taken.
//
// Thread context: the one host thread that runs the engine. The interpreter, the memory and the
// launch's memory outlive the executor; several executors can share one interpreter.
class GridExecutor {
 public:
  static constexpr uint32_t kMaxSms = 64;
  static constexpr uint64_t kCtaStartCycles = 100;

  // nullptr when launch.Validate() objects or `sms` is not in 1..kMaxSms. Forgets the decoded code
  // of earlier launches: the program may have been written anew.
  static std::unique_ptr<GridExecutor> Create(const Launch& launch, uint32_t sms,
                                              Interpreter& interpreter, SmMemory& memory);

  // Runs at most `max_instructions`; stops earlier only at the grid's end, when drained, or at a
  // fault or exception, after which every further call returns that state at once.
  QuantumResult RunQuantum(uint64_t max_instructions);

  // While draining no new CTA starts (preemption at CTA boundaries); SaveState is then small.
  void SetDraining(bool draining);
  // After kFault: the next quantum executes the faulting instruction again (fault replay).
  void Retry();

  GridState state() const { return state_; }
  const StopRecord& stop() const { return stop_; }  // valid in kFault and kException
  const Launch& launch() const { return launch_; }
  uint64_t cycles() const { return cycles_; }  // since launch, saves and restores included
  uint64_t ctas_started() const { return next_cta_; }
  uint32_t live_ctas() const;

  // The saved form between quanta: exact size for this moment, and writing it. SaveState returns
  // the bytes written, 0 if `buffer` is too small. A stop is not saved: the restored grid meets it
  // again. The layout starts with a magic number and kStateVersion.
  static constexpr uint32_t kStateVersion = 1;
  size_t StateSize() const;
  static size_t MaxStateSize(uint32_t sms);  // of any launch
  size_t SaveState(std::span<std::byte> buffer) const;

  // The bytes may come from memory that a guest can write. nullptr for anything that SaveState
  // cannot have written on this machine: other version or sizes, values out of range, more live
  // CTAs than `sms`. What passes may still be a forgery; it then runs as a program of that
  // context would, within the same limits. `context_id` is the caller's, never the buffer's.
  static std::unique_ptr<GridExecutor> RestoreState(std::span<const std::byte> buffer,
                                                    uint64_t context_id, uint32_t sms,
                                                    Interpreter& interpreter, SmMemory& memory);

 private:
  struct Slot {
    std::unique_ptr<Cta> cta;  // made at first use
    bool live = false;
    uint64_t cycles = 0;
  };

  GridExecutor(const Launch& launch, uint32_t sms, Interpreter& interpreter, SmMemory& memory);
  void StartCtas();
  Slot* NextSlot();
  Cta& CtaOf(size_t slot);
  Dim3 CtaIndex(uint64_t linear) const;
  void UpdateState();
  void RunTurn(Slot& slot, uint64_t turn, QuantumResult& result);
  void SaveLaunch(StateWriter& writer) const;
  static Launch LoadLaunch(StateReader& reader);
  bool LoadCtas(StateReader& reader, uint32_t count);

  const Launch launch_;
  const uint64_t cta_count_;
  Interpreter& interpreter_;
  SmMemory& memory_;
  std::vector<Slot> slots_;
  uint64_t next_cta_ = 0;
  uint64_t cycles_ = 0;
  bool draining_ = false;
  GridState state_ = GridState::kRunning;
  StopRecord stop_;
};

}  // namespace sm
