// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/irq/virtual_tree.h"

namespace turnstile {

// Bit s: subtree s has an enabled leaf bit.
uint32_t VirtualTree::TopLocked() const {
  uint32_t top = 0;
  for (uint32_t leaf = 0; leaf < kLeaves; ++leaf) {
    if ((leaf_[leaf] & enable_[leaf]) != 0) top |= 1u << (leaf / 2);
  }
  return top;
}

// Bits 0..3: subtrees that drive their message, 4 and 5: PMC. The order of the MSI-X entries.
uint32_t VirtualTree::SourcesLocked() const {
  uint32_t sources = TopLocked() & top_enable_;
  for (uint32_t tree = 0; tree < 2; ++tree) {
    if ((pmc_[tree] & pmc_enable_[tree]) != 0) sources |= 1u << (kSubtrees + tree);
  }
  return sources;
}

// Sends for sources that rose since `before` and for those of `resend` that are set.
void VirtualTree::UpdateLocked(uint32_t before, uint32_t resend) {
  const uint32_t now = SourcesLocked();
  const uint32_t send = now & (~before | resend);
  if (mode_ == TS_IRQ_MODE_MSIX) {
    for (uint32_t vector = 0; vector < TS_MSIX_VECTORS; ++vector) {
      if ((send >> vector & 1) == 0) continue;
      ts_host_signal_msix(host_, vector);
      ++injected_;
    }
  } else if (mode_ == TS_IRQ_MODE_MSI && send != 0) {
    ts_host_signal_msi(host_);
    ++injected_;
  }
  UpdateIntxLocked();
}

void VirtualTree::UpdateIntxLocked() {
  const bool level = mode_ == TS_IRQ_MODE_INTX && !intx_disabled_ && SourcesLocked() != 0;
  if (level == intx_) return;
  intx_ = level;
  if (level) ++injected_;
  ts_host_set_intx(host_, level);
}

void VirtualTree::Latch(uint32_t vector) {
  if (vector >= kLeaves * 32) return;
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  const uint32_t leaf = vector / 32;
  const uint32_t bit = 1u << (vector % 32);
  const bool fresh = (leaf_[leaf] & bit) == 0 && (enable_[leaf] & bit) != 0;
  leaf_[leaf] |= bit;
  UpdateLocked(before, fresh ? 1u << (leaf / 2) : 0);
}

void VirtualTree::LatchLeaf0(uint32_t bits) {
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  const bool fresh = (bits & ~leaf_[0] & enable_[0]) != 0;
  leaf_[0] |= bits;
  UpdateLocked(before, fresh ? 1u : 0);
}

void VirtualTree::SetLevel(uint32_t vector, bool level) {
  if (vector >= kLeaves * 32) return;
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  const uint32_t leaf = vector / 32;
  const uint32_t bit = 1u << (vector % 32);
  const bool rose = level && (level_[leaf] & bit) == 0;
  level_[leaf] = level ? level_[leaf] | bit : level_[leaf] & ~bit;
  if (!rose) return;  // a latched bit stays until software clears it
  const bool fresh = (leaf_[leaf] & bit) == 0 && (enable_[leaf] & bit) != 0;
  leaf_[leaf] |= bit;
  UpdateLocked(before, fresh ? 1u << (leaf / 2) : 0);
}

void VirtualTree::SetPmcBit(uint32_t tree, uint32_t bit, bool level) {
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  pmc_[tree] = level ? pmc_[tree] | 1u << bit : pmc_[tree] & ~(1u << bit);
  UpdateLocked(before, 0);
}

uint32_t VirtualTree::ReadLeaf(uint32_t leaf) const {
  base::SpinLockGuard guard(lock_);
  return leaf < kLeaves ? leaf_[leaf] : 0;
}

uint32_t VirtualTree::ReadLeafEnable(uint32_t leaf) const {
  base::SpinLockGuard guard(lock_);
  return leaf < kLeaves ? enable_[leaf] : 0;
}

uint32_t VirtualTree::ReadTop() const {
  base::SpinLockGuard guard(lock_);
  return TopLocked();
}

uint32_t VirtualTree::ReadTopEnable() const {
  base::SpinLockGuard guard(lock_);
  return top_enable_;
}

uint32_t VirtualTree::ReadPmcEnable(uint32_t tree) const {
  base::SpinLockGuard guard(lock_);
  return pmc_enable_[tree];
}

uint32_t VirtualTree::ReadPmc(uint32_t tree) const {
  base::SpinLockGuard guard(lock_);
  return pmc_[tree];
}

void VirtualTree::ClearLeaf(uint32_t leaf, uint32_t bits) {
  if (leaf >= kLeaves) return;
  base::SpinLockGuard guard(lock_);
  leaf_[leaf] &= ~bits;
  const uint32_t before = SourcesLocked();
  const uint32_t again = level_[leaf] & bits;
  leaf_[leaf] |= again;
  UpdateLocked(before, (again & enable_[leaf]) != 0 ? 1u << (leaf / 2) : 0);
}

void VirtualTree::SetLeafEnable(uint32_t leaf, uint32_t bits) {
  if (leaf >= kLeaves) return;
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  enable_[leaf] |= bits;
  UpdateLocked(before, 0);
}

void VirtualTree::ClearLeafEnable(uint32_t leaf, uint32_t bits) {
  if (leaf >= kLeaves) return;
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  enable_[leaf] &= ~bits;
  UpdateLocked(before, 0);
}

void VirtualTree::SetTopEnable(uint32_t bits) {
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  bits &= (1u << kSubtrees) - 1;
  top_enable_ |= bits;
  UpdateLocked(before, bits);
}

void VirtualTree::ClearTopEnable(uint32_t bits) {
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  top_enable_ &= ~bits;
  UpdateLocked(before, 0);
}

void VirtualTree::SetPmcEnable(uint32_t tree, uint32_t bits) {
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  pmc_enable_[tree] |= bits;
  UpdateLocked(before, 0);
}

void VirtualTree::ClearPmcEnable(uint32_t tree, uint32_t bits) {
  base::SpinLockGuard guard(lock_);
  const uint32_t before = SourcesLocked();
  pmc_enable_[tree] &= ~bits;
  UpdateLocked(before, 0);
}

void VirtualTree::SetMode(ts_irq_mode mode) {
  base::SpinLockGuard guard(lock_);
  mode_ = mode;
  UpdateIntxLocked();
}

void VirtualTree::SetIntxDisabled(bool disabled) {
  base::SpinLockGuard guard(lock_);
  intx_disabled_ = disabled;
  UpdateIntxLocked();
}

void VirtualTree::Reset() {
  base::SpinLockGuard guard(lock_);
  for (uint32_t leaf = 0; leaf < kLeaves; ++leaf) leaf_[leaf] = level_[leaf] = enable_[leaf] = 0;
  top_enable_ = 0;
  pmc_[0] = pmc_[1] = pmc_enable_[0] = pmc_enable_[1] = 0;
  intx_disabled_ = false;
  UpdateIntxLocked();
}

uint64_t VirtualTree::injected() const {
  base::SpinLockGuard guard(lock_);
  return injected_;
}

}  // namespace turnstile
