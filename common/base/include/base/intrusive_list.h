// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Doubly linked list through its elements: no allocation, O(1) removal from wherever one is.
#pragma once

#include <cstddef>

#include "base/check.h"

namespace base {

template <typename T, typename Tag>
class IntrusiveList;

// Base class of an element. An element that is on several lists at once has one base per list,
// told apart by Tag. Its destruction takes it off its list.
//
//   struct ReadyTag;
//   class Tsg : public base::ListNode<ReadyTag> { ... };
//   base::IntrusiveList<Tsg, ReadyTag> ready_;
template <typename Tag = void>
class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { Unlink(); }

  bool IsLinked() const { return next_ != nullptr; }

  // Takes it off its list; nothing happens when it is on none.
  void Unlink() {
    if (!IsLinked()) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 private:
  template <typename T, typename OtherTag>
  friend class IntrusiveList;

  void InsertBefore(ListNode* position) {
    TS_CHECK(!IsLinked());
    previous_ = position->previous_;
    next_ = position;
    previous_->next_ = this;
    position->previous_ = this;
  }

  ListNode* previous_ = nullptr;
  ListNode* next_ = nullptr;
};

// Does not own its elements. T may be incomplete where the list is declared. Not synchronized.
// Adding an element that is on a list already is a bug and traps.
template <typename T, typename Tag = void>
class IntrusiveList {
  using Node = ListNode<Tag>;

  template <typename Value, typename NodePointer>
  class Iter {
   public:
    Iter() = default;
    explicit Iter(NodePointer node) : node_(node) {}
    Value& operator*() const { return static_cast<Value&>(*node_); }
    Value* operator->() const { return &**this; }
    Iter& operator++() {
      node_ = node_->next_;
      return *this;
    }
    friend bool operator==(const Iter&, const Iter&) = default;

   private:
    friend class IntrusiveList;
    NodePointer node_ = nullptr;
  };

 public:
  using Iterator = Iter<T, Node*>;
  using ConstIterator = Iter<const T, const Node*>;

  IntrusiveList() { head_.next_ = head_.previous_ = &head_; }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() { Clear(); }

  bool empty() const { return head_.next_ == &head_; }
  Iterator begin() { return Iterator(head_.next_); }
  Iterator end() { return Iterator(&head_); }
  ConstIterator begin() const { return ConstIterator(head_.next_); }
  ConstIterator end() const { return ConstIterator(&head_); }

  // Null when empty.
  T* front() { return empty() ? nullptr : static_cast<T*>(head_.next_); }
  const T* front() const { return empty() ? nullptr : static_cast<const T*>(head_.next_); }
  T* back() { return empty() ? nullptr : static_cast<T*>(head_.previous_); }

  void PushBack(T& element) { AsNode(element).InsertBefore(&head_); }
  void PushFront(T& element) { AsNode(element).InsertBefore(head_.next_); }
  void InsertBefore(T& position, T& element) { AsNode(element).InsertBefore(&AsNode(position)); }

  // Takes `element` off this list. It must be on this one.
  void Remove(T& element) { AsNode(element).Unlink(); }

  // Takes off the first element; null when empty.
  T* PopFront() {
    T* first = front();
    if (first != nullptr) Remove(*first);
    return first;
  }

  // Removes the element and returns the position after it: the way to remove while iterating.
  Iterator Erase(Iterator position) {
    Node* next = position.node_->next_;
    position.node_->Unlink();
    return Iterator(next);
  }

  void MoveToBack(T& element) {
    Remove(element);
    PushBack(element);
  }

  // Takes off all elements.
  void Clear() {
    while (PopFront() != nullptr) {
    }
  }

  // Counts: O(size).
  size_t CountSlow() const {
    size_t count = 0;
    for (const Node* node = head_.next_; node != &head_; node = node->next_) ++count;
    return count;
  }

 private:
  static Node& AsNode(T& element) { return static_cast<Node&>(element); }

  Node head_;
};

}  // namespace base
