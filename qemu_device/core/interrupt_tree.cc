// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "interrupt_tree.h"

#include <utility>

namespace ts104 {

void InterruptTree::Send(uint32_t function, uint32_t subtree) {
  if ((functions_[function].top_enable >> subtree & 1) == 0) return;
  if (function == 0) {
    messages_ |= 1u << subtree;
    return;
  }
  virtual_leaf_[function / 32] |= 1u << function % 32;
  if ((virtual_enable_[function / 32] >> function % 32 & 1) != 0) {
    Raise(0, NV_CTRL_VECTOR_VIRTUAL_INTR);
  }
}

void InterruptTree::Raise(uint32_t function, uint32_t vector) {
  if (function >= kFunctions || vector >= kLeaves * 32) return;
  Function& f = functions_[function];
  const uint32_t leaf = vector / 32;
  const uint32_t bit = 1u << vector % 32;
  if ((f.leaf[leaf] & bit) != 0) return;
  f.leaf[leaf] |= bit;
  if ((f.enable[leaf] & bit) != 0) Send(function, leaf / 2);
}

uint32_t InterruptTree::Leaf(uint32_t function, uint32_t leaf) const {
  return function < kFunctions && leaf < kLeaves ? functions_[function].leaf[leaf] : 0;
}

uint32_t InterruptTree::LeafEnable(uint32_t function, uint32_t leaf) const {
  return function < kFunctions && leaf < kLeaves ? functions_[function].enable[leaf] : 0;
}

uint32_t InterruptTree::Top(uint32_t function) const {
  if (function >= kFunctions) return 0;
  uint32_t top = 0;
  for (uint32_t s = 0; s < kSubtrees; ++s) {
    if (functions_[function].Active(s) != 0) top |= 1u << s;
  }
  return top;
}

uint32_t InterruptTree::TopEnable(uint32_t function) const {
  return function < kFunctions ? functions_[function].top_enable : 0;
}

void InterruptTree::ClearLeaf(uint32_t function, uint32_t leaf, uint32_t mask) {
  if (function < kFunctions && leaf < kLeaves) functions_[function].leaf[leaf] &= ~mask;
}

void InterruptTree::SetLeafEnable(uint32_t function, uint32_t leaf, uint32_t mask) {
  if (function >= kFunctions || leaf >= kLeaves) return;
  Function& f = functions_[function];
  const bool was_active = f.Active(leaf / 2) != 0;
  f.enable[leaf] |= mask;
  if (!was_active && f.Active(leaf / 2) != 0) Send(function, leaf / 2);
}

void InterruptTree::ClearLeafEnable(uint32_t function, uint32_t leaf, uint32_t mask) {
  if (function < kFunctions && leaf < kLeaves) functions_[function].enable[leaf] &= ~mask;
}

void InterruptTree::SetTopEnable(uint32_t function, uint32_t mask) {
  if (function >= kFunctions) return;
  Function& f = functions_[function];
  f.top_enable |= mask & ((1u << kSubtrees) - 1);
  for (uint32_t s = 0; s < kSubtrees; ++s) {
    if ((mask >> s & 1) != 0 && f.Active(s) != 0) Send(function, s);
  }
}

void InterruptTree::ClearTopEnable(uint32_t function, uint32_t mask) {
  if (function < kFunctions) functions_[function].top_enable &= ~mask;
}

void InterruptTree::ClearVirtualLeaf(uint32_t word, uint32_t mask) {
  if (word < 2) virtual_leaf_[word] &= ~mask;
}

void InterruptTree::SetVirtualEnable(uint32_t word, uint32_t mask) {
  if (word >= 2) return;
  const uint32_t added = mask & ~virtual_enable_[word];
  virtual_enable_[word] |= mask;
  if ((virtual_leaf_[word] & added) != 0) Raise(0, NV_CTRL_VECTOR_VIRTUAL_INTR);
}

void InterruptTree::ClearVirtualEnable(uint32_t word, uint32_t mask) {
  if (word < 2) virtual_enable_[word] &= ~mask;
}

void InterruptTree::RetriggerVirtual() {
  for (uint32_t word = 0; word < 2; ++word) {
    if ((virtual_leaf_[word] & virtual_enable_[word]) != 0) Raise(0, NV_CTRL_VECTOR_VIRTUAL_INTR);
  }
}

uint32_t InterruptTree::TakeMessages() { return std::exchange(messages_, 0); }

}  // namespace ts104
