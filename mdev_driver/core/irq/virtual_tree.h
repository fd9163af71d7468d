// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The interrupt tree that a guest sees: leaves, subtrees, PMC, and the messages they send.
#pragma once

#include <cstdint>

#include "base/lock.h"
#include "core/core_abi.h"

namespace turnstile {

// Lock ranks of the core, in the order of acquisition: docs/locking.md. They lie above the guest
// driver's: in the rig a guest that holds its own locks traps into this code.
inline constexpr uint32_t kRankVgpu = 20;
inline constexpr uint32_t kRankGpu = 22;
inline constexpr uint32_t kRankGpuIrq = 24;
inline constexpr uint32_t kRankVgpuIrq = 26;

// Register map §3: leaf bits latch; a subtree sends its message when it becomes non-zero, when a
// new bit is latched in an enabled leaf, and on TOP_EN_SET of a subtree that is set; level sources
// set their bit again. Any context; the lock inside is the innermost of all.
class VirtualTree {
 public:
  static constexpr uint32_t kLeaves = 8;
  static constexpr uint32_t kSubtrees = 4;

  explicit VirtualTree(ts_host_vgpu* host) : host_(host) {}

  base::Status Init() { return lock_.Init(kRankVgpuIrq); }

  // A pulse of `vector`, < 256 (else ignored). Latch0: all set bits of leaf 0 at once.
  void Latch(uint32_t vector) TS_EXCLUDES(lock_);
  void LatchLeaf0(uint32_t bits) TS_EXCLUDES(lock_);
  // State of a level source.
  void SetLevel(uint32_t vector, bool level) TS_EXCLUDES(lock_);
  // State of one bit of PMC INTR(0) or INTR(1), which drive MSI-X entries 4 and 5.
  void SetPmcBit(uint32_t tree, uint32_t bit, bool level) TS_EXCLUDES(lock_);

  uint32_t ReadLeaf(uint32_t leaf) const TS_EXCLUDES(lock_);
  uint32_t ReadLeafEnable(uint32_t leaf) const TS_EXCLUDES(lock_);
  uint32_t ReadTop() const TS_EXCLUDES(lock_);
  uint32_t ReadTopEnable() const TS_EXCLUDES(lock_);
  uint32_t ReadPmcEnable(uint32_t tree) const TS_EXCLUDES(lock_);
  uint32_t ReadPmc(uint32_t tree) const TS_EXCLUDES(lock_);

  void ClearLeaf(uint32_t leaf, uint32_t bits) TS_EXCLUDES(lock_);
  void SetLeafEnable(uint32_t leaf, uint32_t bits) TS_EXCLUDES(lock_);
  void ClearLeafEnable(uint32_t leaf, uint32_t bits) TS_EXCLUDES(lock_);
  void SetTopEnable(uint32_t bits) TS_EXCLUDES(lock_);
  void ClearTopEnable(uint32_t bits) TS_EXCLUDES(lock_);
  void SetPmcEnable(uint32_t tree, uint32_t bits) TS_EXCLUDES(lock_);
  void ClearPmcEnable(uint32_t tree, uint32_t bits) TS_EXCLUDES(lock_);

  void SetMode(ts_irq_mode mode) TS_EXCLUDES(lock_);
  // INTX_DISABLE of the command register.
  void SetIntxDisabled(bool disabled) TS_EXCLUDES(lock_);
  // Power-on state; the mode stays, it is the user's.
  void Reset() TS_EXCLUDES(lock_);

  uint64_t injected() const TS_EXCLUDES(lock_);

 private:
  uint32_t TopLocked() const TS_REQUIRES(lock_);
  uint32_t SourcesLocked() const TS_REQUIRES(lock_);
  void UpdateLocked(uint32_t before, uint32_t resend) TS_REQUIRES(lock_);
  void UpdateIntxLocked() TS_REQUIRES(lock_);

  ts_host_vgpu* const host_;
  mutable base::SpinLock lock_;
  uint32_t leaf_[kLeaves] TS_GUARDED_BY(lock_) = {};
  uint32_t level_[kLeaves] TS_GUARDED_BY(lock_) = {};
  uint32_t enable_[kLeaves] TS_GUARDED_BY(lock_) = {};
  uint32_t top_enable_ TS_GUARDED_BY(lock_) = 0;
  uint32_t pmc_[2] TS_GUARDED_BY(lock_) = {};
  uint32_t pmc_enable_[2] TS_GUARDED_BY(lock_) = {};
  ts_irq_mode mode_ TS_GUARDED_BY(lock_) = TS_IRQ_MODE_OFF;
  bool intx_disabled_ TS_GUARDED_BY(lock_) = false;
  bool intx_ TS_GUARDED_BY(lock_) = false;
  uint64_t injected_ TS_GUARDED_BY(lock_) = 0;
};

}  // namespace turnstile
