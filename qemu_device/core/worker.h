// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Runs the three runlists as one discrete-event machine.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_WORKER_H_
#define TURNSTILE_QEMU_DEVICE_CORE_WORKER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "engine.h"
#include "runlist.h"

namespace ts104 {

// Thread context: one thread at a time, the model's or the one that calls ts104_run_until.
class Worker {
 public:
  // Later than this the model has fallen behind its clock and stops trying to catch up.
  static constexpr uint64_t kLagToleranceNs = 5'000'000;

  Worker(DeviceState& state, const MemoryPort& memory, FaultBuffer& faults);

  // When something happens next, requests of software included; kNever when nothing will.
  uint64_t NextEvent() const;
  // Everything due up to `end`, in order of time, ties by runlist. `paced`: counts lag against the
  // device clock. Returns early, between two pieces of work, once Interrupt has been called.
  void RunUntil(uint64_t end, bool paced);
  // Any thread: makes RunUntil return soon, until Continue.
  void Interrupt() { interrupted_.store(true, std::memory_order_release); }
  void Continue() { interrupted_.store(false, std::memory_order_release); }

  // Forgets everything of PFIFO and its engines; `everything`: TLBs too.
  void Reset(bool everything);

 private:
  void HandleRequests(uint64_t now);
  uint64_t NoticedAt(uint64_t request) const;
  void HandleInvalidate(const TlbInvalidate& what);
  void FireAlarm();
  uint64_t EventsExcept(uint32_t runlist) const;
  // When `runlist` shall do what is due at `due`: then, or now if that is too long ago.
  uint64_t CatchUp(Runlist& runlist, uint64_t due);

  DeviceState& state_;
  Mmu mmu_;
  Machine machine_;
  std::array<std::unique_ptr<Runlist>, kRunlists> runlists_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_WORKER_H_
