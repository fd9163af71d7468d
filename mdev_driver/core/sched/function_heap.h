// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector.h"

namespace turnstile {

// Functions by key, the least first; equal keys by number. Every function is in it at most once.
// Logarithmic to base 4: 1024 functions are five levels below the first; no allocation after Init.
// Keys lie beside the numbers: the children of a node are 64 bytes.
class FunctionHeap {
 public:
  // `functions`: numbers below this, at most 65535. kNoMemory.
  base::Status Init(uint32_t functions) {
    TS_TRY(nodes_, base::DynArray<Node>::Create(functions));
    TS_TRY(position_, base::DynArray<uint16_t>::Create(functions));
    return base::Status::kOk;
  }

  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  uint32_t min() const { return nodes_[0].function; }
  uint64_t min_key() const { return nodes_[0].key; }
  bool Contains(uint32_t function) const { return position_[function] != 0; }

  void Push(uint32_t function, uint64_t key) {
    if (Contains(function)) Remove(function);
    Up(size_++, {key, function});
  }
  uint32_t Pop() {
    const uint32_t function = min();
    Remove(function);
    return function;
  }
  void Remove(uint32_t function) {
    if (!Contains(function)) return;
    const uint32_t hole = position_[function] - 1u;
    position_[function] = 0;
    const Node moved = nodes_[--size_];
    if (hole == size_) return;
    if (hole != 0 && Less(moved, nodes_[(hole - 1) / kArity])) {
      Up(hole, moved);
    } else {
      Down(hole, moved);
    }
  }
  // Push and Pop in one: `function`, which is not in it, and the least change places. Returns
  // `function` if that is the least itself.
  uint32_t Exchange(uint32_t function, uint64_t key) {
    const Node node = {key, function};
    if (empty() || Less(node, nodes_[0])) return function;
    const uint32_t least = min();
    position_[least] = 0;
    Down(0, node);
    return least;
  }
  // Keys become key - by, not below 0. Keeps the order.
  void Rebase(uint64_t by) {
    for (uint32_t i = 0; i < size_; ++i) {
      nodes_[i].key = nodes_[i].key < by ? 0 : nodes_[i].key - by;
    }
  }

 private:
  static constexpr uint32_t kArity = 4;
  struct Node {
    uint64_t key = 0;
    uint32_t function = 0;
  };

  static bool Less(const Node& a, const Node& b) {
    // Without a branch: which way it goes cannot be predicted.
    return ((a.key < b.key) | ((a.key == b.key) & (a.function < b.function))) != 0;
  }
  void Set(uint32_t index, const Node& node) {
    nodes_[index] = node;
    position_[node.function] = static_cast<uint16_t>(index + 1);
  }
  void Up(uint32_t index, const Node& node) {
    while (index != 0 && Less(node, nodes_[(index - 1) / kArity])) {
      Set(index, nodes_[(index - 1) / kArity]);
      index = (index - 1) / kArity;
    }
    Set(index, node);
  }
  void Down(uint32_t index, const Node& node) {
    const Node* const nodes = nodes_.data();
    for (;;) {
      const uint32_t first = index * kArity + 1;
      if (first >= size_) break;
      const uint32_t last = first + kArity < size_ ? first + kArity : size_;
      uint32_t least = first;
      for (uint32_t i = first + 1; i < last; ++i) {
        least = Less(nodes[i], nodes[least]) ? i : least;
      }
      if (!Less(nodes[least], node)) break;
      Set(index, nodes[least]);
      index = least;
    }
    Set(index, node);
  }

  base::DynArray<Node> nodes_;
  base::DynArray<uint16_t> position_;  // index + 1, 0: not in it
  uint32_t size_ = 0;
};

}  // namespace turnstile
