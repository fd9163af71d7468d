// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Heap arrays whose growth can fail: Vector (grows) and DynArray (size fixed when made).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace base {

namespace internal {

// Uninitialized memory for `count` objects; null when there is none or the size overflows.
template <typename T>
T* AllocateRaw(size_t count) {
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "the kernel has no aligned new");
  if (count > static_cast<size_t>(PTRDIFF_MAX) / sizeof(T)) return nullptr;
  return static_cast<T*>(::operator new(count * sizeof(T), std::nothrow));
}

template <typename T>
void FreeRaw(T* memory) {
  ::operator delete(static_cast<void*>(memory));
}

template <typename T>
void DestroyRange(T* first, size_t count) {
  if constexpr (!std::is_trivially_destructible_v<T>) {
    while (count > 0) first[--count].~T();
  }
}

}  // namespace internal

// Grows by doubling. Elements may be move-only; their moves must not fail. Not synchronized.
// Every Try function leaves the vector as it was when it fails. operator[] traps beyond the end.
template <typename T>
class Vector {
 public:
  Vector() = default;
  Vector(const Vector&) = delete;
  Vector& operator=(const Vector&) = delete;
  Vector(Vector&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Vector& operator=(Vector&& other) noexcept {
    Vector taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    std::swap(capacity_, taken.capacity_);
    return *this;
  }
  ~Vector() {
    Clear();
    internal::FreeRaw(data_);
  }

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

  T& operator[](size_t index) {
    TS_CHECK(index < size_);
    return data_[index];
  }
  const T& operator[](size_t index) const {
    TS_CHECK(index < size_);
    return data_[index];
  }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }

  // Room for `capacity` elements in all; pushes up to there cannot fail. kNoMemory.
  Status TryReserve(size_t capacity) {
    if (capacity <= capacity_) return Status::kOk;
    T* fresh = internal::AllocateRaw<T>(capacity);
    if (fresh == nullptr) return Status::kNoMemory;
    for (size_t i = 0; i < size_; ++i) {
      new (&fresh[i]) T(std::move(data_[i]));
      data_[i].~T();
    }
    internal::FreeRaw(data_);
    data_ = fresh;
    capacity_ = capacity;
    return Status::kOk;
  }

  // By value: an element of this very vector may be pushed. kNoMemory destroys `value`.
  Status TryPushBack(T value) {
    if (size_ == capacity_) {
      if (const Status status = TryReserve(capacity_ == 0 ? 4 : capacity_ * 2);
          status != Status::kOk) {
        return status;
      }
    }
    new (&data_[size_]) T(std::move(value));
    ++size_;
    return Status::kOk;
  }

  // Adds value-initialized elements or drops the last ones. kNoMemory.
  Status TryResize(size_t size) {
    TS_TRY_STATUS(TryReserve(size));
    Truncate(size);
    while (size_ < size) new (&data_[size_++]) T();
    return Status::kOk;
  }

  // Drops elements from the end until at most `size` are left. Keeps the memory.
  void Truncate(size_t size) {
    if (size >= size_) return;
    internal::DestroyRange(data_ + size, size_ - size);
    size_ = size;
  }
  void Clear() { Truncate(0); }

  void PopBack() {
    TS_CHECK(size_ > 0);
    Truncate(size_ - 1);
  }

  // Removes one element and keeps the order of the rest: O(size).
  void Erase(size_t index) {
    TS_CHECK(index < size_);
    for (size_t i = index; i + 1 < size_; ++i) data_[i] = std::move(data_[i + 1]);
    PopBack();
  }

  // Removes one element; the last one takes its place: O(1).
  void EraseUnordered(size_t index) {
    TS_CHECK(index < size_);
    if (index + 1 != size_) data_[index] = std::move(data_[size_ - 1]);
    PopBack();
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// `size` value-initialized elements (zero for numbers). Elements need not be movable.
template <typename T>
class DynArray {
 public:
  DynArray() = default;
  DynArray(const DynArray&) = delete;
  DynArray& operator=(const DynArray&) = delete;
  DynArray(DynArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DynArray& operator=(DynArray&& other) noexcept {
    DynArray taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~DynArray() {
    internal::DestroyRange(data_, size_);
    internal::FreeRaw(data_);
  }

  // kNoMemory, also for a size that overflows. 0 elements need no memory.
  static Result<DynArray> Create(size_t size) {
    DynArray array;
    if (size == 0) return Result<DynArray>(std::move(array));
    array.data_ = internal::AllocateRaw<T>(size);
    if (array.data_ == nullptr) return Status::kNoMemory;
    for (; array.size_ < size; ++array.size_) new (&array.data_[array.size_]) T();
    return Result<DynArray>(std::move(array));
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

  // Traps beyond the end.
  T& operator[](size_t index) {
    TS_CHECK(index < size_);
    return data_[index];
  }
  const T& operator[](size_t index) const {
    TS_CHECK(index < size_);
    return data_[index];
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace base
