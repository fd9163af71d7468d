// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A vector with its capacity inside: no allocation, for trap paths and for the stack.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace base {

// At most kCapacity elements, move-only ones too. Neither copied nor moved itself. Not
// synchronized. operator[] traps beyond the end.
template <typename T, size_t kCapacity>
class StaticVector {
  static_assert(kCapacity > 0);

 public:
  StaticVector() = default;
  StaticVector(const StaticVector&) = delete;
  StaticVector& operator=(const StaticVector&) = delete;
  ~StaticVector() { Clear(); }

  static constexpr size_t capacity() { return kCapacity; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == kCapacity; }
  T* data() { return std::launder(reinterpret_cast<T*>(storage_)); }
  const T* data() const { return std::launder(reinterpret_cast<const T*>(storage_)); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

  T& operator[](size_t index) {
    TS_CHECK(index < size_);
    return data()[index];
  }
  const T& operator[](size_t index) const {
    TS_CHECK(index < size_);
    return data()[index];
  }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }

  // kNoSpace when full; `value` is then destroyed.
  Status TryPushBack(T value) {
    if (full()) return Status::kNoSpace;
    new (storage_ + size_ * sizeof(T)) T(std::move(value));
    ++size_;
    return Status::kOk;
  }

  void PopBack() {
    TS_CHECK(size_ > 0);
    --size_;
    (data() + size_)->~T();
  }
  void Clear() {
    while (size_ > 0) PopBack();
  }

  // Removes one element and keeps the order of the rest.
  void Erase(size_t index) {
    TS_CHECK(index < size_);
    for (size_t i = index; i + 1 < size_; ++i) data()[i] = std::move(data()[i + 1]);
    PopBack();
  }

 private:
  alignas(T) std::byte storage_[kCapacity * sizeof(T)];
  size_t size_ = 0;
};

}  // namespace base
