// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The interrupt trees of the 64 functions, and the layer that tells function 0 about the others.
#ifndef TURNSTILE_QEMU_DEVICE_CORE_INTERRUPT_TREE_H_
#define TURNSTILE_QEMU_DEVICE_CORE_INTERRUPT_TREE_H_

#include <array>
#include <cstdint>

#include "ts104/regs.h"

namespace ts104 {

// Thread context: any, under the model's lock. Functions are 0..63, leaves 0..7, vectors 0..255
// (32 leaf + bit); larger numbers do nothing and read 0. behaviour.md §3, "Interrupts".
class InterruptTree {
 public:
  static constexpr uint32_t kFunctions = NV_CTRL_NUM_FUNCTIONS;
  static constexpr uint32_t kLeaves = 8;
  static constexpr uint32_t kSubtrees = 4;

  // Latches a vector. A bit that is latched already sends nothing again.
  void Raise(uint32_t function, uint32_t vector);

  uint32_t Leaf(uint32_t function, uint32_t leaf) const;
  uint32_t LeafEnable(uint32_t function, uint32_t leaf) const;
  uint32_t Top(uint32_t function) const;
  uint32_t TopEnable(uint32_t function) const;
  void ClearLeaf(uint32_t function, uint32_t leaf, uint32_t mask);
  void SetLeafEnable(uint32_t function, uint32_t leaf, uint32_t mask);
  void ClearLeafEnable(uint32_t function, uint32_t leaf, uint32_t mask);
  void SetTopEnable(uint32_t function, uint32_t mask);
  void ClearTopEnable(uint32_t function, uint32_t mask);

  // VIRTUAL_INTR_LEAF(word), word 0 or 1.
  uint32_t VirtualLeaf(uint32_t word) const { return word < 2 ? virtual_leaf_[word] : 0; }
  uint32_t VirtualEnable(uint32_t word) const { return word < 2 ? virtual_enable_[word] : 0; }
  void ClearVirtualLeaf(uint32_t word, uint32_t mask);
  void SetVirtualEnable(uint32_t word, uint32_t mask);
  void ClearVirtualEnable(uint32_t word, uint32_t mask);
  void RetriggerVirtual();

  // Subtrees of function 0 that have sent a message since the last call (bit = MSI-X entry).
  uint32_t TakeMessages();
  // Function 0 has something that software wants to know: TOP & TOP_EN is not 0.
  bool Asserted() const { return (Top(0) & TopEnable(0)) != 0; }

  void Reset() { *this = InterruptTree(); }

 private:
  struct Function {
    std::array<uint32_t, kLeaves> leaf{};
    std::array<uint32_t, kLeaves> enable{};
    uint32_t top_enable = 0;

    uint32_t Active(uint32_t subtree) const {
      return (leaf[2 * subtree] & enable[2 * subtree]) |
             (leaf[2 * subtree + 1] & enable[2 * subtree + 1]);
    }
  };

  void Send(uint32_t function, uint32_t subtree);

  std::array<Function, kFunctions> functions_{};
  std::array<uint32_t, 2> virtual_leaf_{};
  std::array<uint32_t, 2> virtual_enable_{};
  uint32_t messages_ = 0;
};

}  // namespace ts104

#endif  // TURNSTILE_QEMU_DEVICE_CORE_INTERRUPT_TREE_H_
