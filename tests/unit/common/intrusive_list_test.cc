// SPDX-License-Identifier: GPL-2.0-only OR MIT

#include "base/intrusive_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace base {
namespace {

struct ReadyTag;
struct AllTag;

struct Item : ListNode<ReadyTag>, ListNode<AllTag> {
  explicit Item(int item_value) : value(item_value) {}
  int value;
};

using ReadyList = IntrusiveList<Item, ReadyTag>;
using AllList = IntrusiveList<Item, AllTag>;

template <typename List>
std::vector<int> Values(const List& list) {
  std::vector<int> values;
  for (const Item& item : list) values.push_back(item.value);
  return values;
}

class IntrusiveListTest : public testing::Test {
 protected:
  Item one_{1};
  Item two_{2};
  Item three_{3};
  ReadyList list_;
};

TEST_F(IntrusiveListTest, StartsEmpty) {
  EXPECT_TRUE(list_.empty());
  EXPECT_EQ(list_.front(), nullptr);
  EXPECT_EQ(list_.back(), nullptr);
  EXPECT_EQ(list_.PopFront(), nullptr);
}

TEST_F(IntrusiveListTest, PushBackKeepsOrder) {
  list_.PushBack(one_);
  list_.PushBack(two_);
  EXPECT_EQ(Values(list_), (std::vector<int>{1, 2}));
  EXPECT_EQ(list_.front(), &one_);
  EXPECT_EQ(list_.back(), &two_);
}

TEST_F(IntrusiveListTest, PushFrontReverses) {
  list_.PushFront(one_);
  list_.PushFront(two_);
  EXPECT_EQ(Values(list_), (std::vector<int>{2, 1}));
}

TEST_F(IntrusiveListTest, InsertBefore) {
  list_.PushBack(one_);
  list_.PushBack(three_);
  list_.InsertBefore(three_, two_);
  EXPECT_EQ(Values(list_), (std::vector<int>{1, 2, 3}));
}

TEST_F(IntrusiveListTest, RemoveFromTheMiddle) {
  list_.PushBack(one_);
  list_.PushBack(two_);
  list_.PushBack(three_);
  list_.Remove(two_);
  EXPECT_EQ(Values(list_), (std::vector<int>{1, 3}));
  EXPECT_FALSE(two_.ListNode<ReadyTag>::IsLinked());
}

TEST_F(IntrusiveListTest, PopFrontReturnsInOrder) {
  list_.PushBack(one_);
  list_.PushBack(two_);
  EXPECT_EQ(list_.PopFront(), &one_);
  EXPECT_EQ(list_.PopFront(), &two_);
  EXPECT_TRUE(list_.empty());
}

TEST_F(IntrusiveListTest, MoveToBackRotates) {
  list_.PushBack(one_);
  list_.PushBack(two_);
  list_.PushBack(three_);
  list_.MoveToBack(one_);
  EXPECT_EQ(Values(list_), (std::vector<int>{2, 3, 1}));
}

TEST_F(IntrusiveListTest, EraseWhileIterating) {
  list_.PushBack(one_);
  list_.PushBack(two_);
  list_.PushBack(three_);
  for (auto it = list_.begin(); it != list_.end();) {
    if (it->value == 2) {
      ++it;
    } else {
      it = list_.Erase(it);
    }
  }
  EXPECT_EQ(Values(list_), (std::vector<int>{2}));
}

TEST_F(IntrusiveListTest, OneElementOnTwoLists) {
  AllList all;
  list_.PushBack(one_);
  all.PushBack(one_);
  list_.Remove(one_);
  EXPECT_EQ(all.front(), &one_);
  EXPECT_EQ(all.CountSlow(), 1u);
}

TEST_F(IntrusiveListTest, DestroyedElementLeavesTheList) {
  list_.PushBack(one_);
  {
    Item temporary(9);
    list_.PushBack(temporary);
    EXPECT_EQ(list_.CountSlow(), 2u);
  }
  EXPECT_EQ(Values(list_), (std::vector<int>{1}));
}

TEST_F(IntrusiveListTest, DestroyedListUnlinksItsElements) {
  {
    ReadyList short_lived;
    short_lived.PushBack(one_);
  }
  EXPECT_FALSE(one_.ListNode<ReadyTag>::IsLinked());
  list_.PushBack(one_);
  EXPECT_EQ(list_.front(), &one_);
}

TEST_F(IntrusiveListTest, UnlinkOfUnlinkedDoesNothing) {
  one_.ListNode<ReadyTag>::Unlink();
  EXPECT_FALSE(one_.ListNode<ReadyTag>::IsLinked());
}

using IntrusiveListDeathTest = IntrusiveListTest;

TEST_F(IntrusiveListDeathTest, AddingTwiceTraps) {
  list_.PushBack(one_);
  EXPECT_DEATH(list_.PushBack(one_), "!IsLinked");
}

}  // namespace
}  // namespace base
