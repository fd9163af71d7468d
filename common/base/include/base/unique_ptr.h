// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The owning pointer, and the only way to make one: allocation that fails is a Status.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace base {

namespace internal {

template <typename U, typename T>
concept DerivedFrom = std::is_convertible_v<U*, T*> && !std::is_same_v<U, T>;

}  // namespace internal

// Sole owner of one heap object. For arrays see DynArray in vector.h.
template <typename T>
class UniquePtr {
  static_assert(!std::is_array_v<T>, "use DynArray<T>");

 public:
  constexpr UniquePtr() = default;
  constexpr UniquePtr(std::nullptr_t) {}
  // Takes over `object`, which came from nothrow new (or is null).
  constexpr explicit UniquePtr(T* object) : object_(object) {}

  UniquePtr(const UniquePtr&) = delete;
  UniquePtr& operator=(const UniquePtr&) = delete;

  constexpr UniquePtr(UniquePtr&& other) noexcept : object_(other.release()) {}
  UniquePtr& operator=(UniquePtr&& other) noexcept {
    reset(other.release());
    return *this;
  }

  // To a base class; it needs a virtual destructor, else the delete would be undefined.
  template <internal::DerivedFrom<T> U>
  constexpr UniquePtr(UniquePtr<U>&& other) noexcept : object_(other.release()) {
    static_assert(std::has_virtual_destructor_v<T> || std::is_same_v<std::remove_cv_t<T>, U>);
  }

  ~UniquePtr() { reset(); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(std::nullptr_t) const { return object_ == nullptr; }

  // Gives the object up to the caller, who now owns it.
  [[nodiscard]] constexpr T* release() { return std::exchange(object_, nullptr); }

  // Destroys the object and takes over `object`. Taking over what is owned already changes nothing.
  void reset(T* object = nullptr) {
    T* old = std::exchange(object_, object);
    if (old != object) delete old;
  }

 private:
  T* object_ = nullptr;
};

// For classes with a private constructor: AdoptUnique(new (std::nothrow) X(...)).
// kNoMemory when `object` is null.
template <typename T>
Result<UniquePtr<T>> AdoptUnique(T* object) {
  if (object == nullptr) return Status::kNoMemory;
  return UniquePtr<T>(object);
}

// Allocates and constructs a T. kNoMemory when there is no memory; the arguments are then
// untouched. May sleep in the kernel.
template <typename T, typename... Args>
Result<UniquePtr<T>> MakeUnique(Args&&... args) {
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "the kernel has no aligned new");
  return AdoptUnique(new (std::nothrow) T(std::forward<Args>(args)...));
}

}  // namespace base
