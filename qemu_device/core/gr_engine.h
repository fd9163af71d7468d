// SPDX-License-Identifier: GPL-2.0-only OR MIT
// GR, compute class C5C0: class methods, launches by QMD, inline-to-memory, preemption.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_GR_ENGINE_H_
#define TURNSTILE_QEMU_DEVICE_CORE_GR_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "engine.h"
#include "gpu_semaphore.h"
#include "gr_context.h"
#include "gr_memory.h"
#include "sm/grid_executor.h"

namespace ts104 {

// Reduction operation of a code in the compute class and in the QMD.
ReduceOp ComputeReduceOp(uint32_t code);

// A grid runs in quanta of at most kQuantumNs of modelled time; TLB invalidates and preemption come
// between them.
class GrEngine : public Engine {
 public:
  static constexpr uint64_t kQuantumNs = 40'000;
  static constexpr uint64_t kQuantumInstructions = 200'000;  // bounds the host's time

  GrEngine(uint32_t index, Machine& machine) : Engine(index, machine), sm_memory_(machine) {}

  EngineResult Method(const ChannelContext& channel, uint32_t method, uint32_t data,
                      uint64_t now) override;
  EngineResult Run(uint64_t now, bool leaving, uint64_t limit) override;
  bool CanSave(uint64_t now) const override;
  EngineResult Resume(const ChannelContext& channel, const EngineWords& words,
                      uint64_t now) override;
  bool Save() override;
  void DropWork() override;
  void Reset() override;
  bool PreemptsPromptly() const override { return context_.mode == PreemptionMode::kCilp; }

 private:
  enum class Phase : uint8_t {
    kRunning,    // the grid has more to do
    kReleasing,  // all CTAs have ended; semaphores come when their time is over
    kStopped,    // a fault or exception is to be reported
  };

  // nullopt: taken; else what went wrong.
  std::optional<EngineResult> TakeContext(const ChannelContext& channel, uint64_t now);
  EngineResult Bad(FaultType type, uint64_t address, uint64_t now) const;
  EngineResult StoreOrRun(uint32_t method, uint32_t data, uint64_t now);
  EngineResult Launch(uint64_t now);
  EngineResult LoadInlineQmd(uint32_t index, uint32_t data, uint64_t now);
  EngineResult StartInline(uint32_t data, uint64_t now);
  EngineResult LoadInlineData(uint32_t data, uint64_t now);
  EngineResult FinishInline(uint64_t now);
  EngineResult Report(uint32_t data, uint64_t now);
  EngineResult Notify(uint32_t data, uint64_t now);
  EngineResult ReleaseAll(uint64_t now);
  EngineResult ReportStop(uint64_t now);
  // Cycles of the next quantum, and how many SMs have work for it.
  uint64_t QuantumCycles(uint64_t now, uint64_t limit, uint64_t sms) const;
  uint64_t BusySms() const;
  // Runs every busy SM for `cycles`; returns what the slowest one took.
  uint64_t RunSms(uint64_t cycles, uint64_t sms);
  compute::ClassState MakeClassState() const;
  uint64_t Address(uint32_t upper_word, uint32_t upper_mask) const;
  void RaiseNonStall();
  void MarkSavedGrid(bool saved);

  sm::Interpreter interpreter_;
  GrMemory sm_memory_;
  GrContext context_;
  std::unique_ptr<sm::GridExecutor> grid_;
  Phase phase_ = Phase::kRunning;
  bool grid_marked_ = false;  // the instance block says that a grid is saved
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_GR_ENGINE_H_
