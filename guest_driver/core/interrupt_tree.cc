// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guest_driver/core/interrupt_tree.h"

#include "ts104/regs.h"
#include "ts104/typed.h"

namespace guest {

namespace {

using namespace ts104::func;

constexpr uint32_t kEngineLeaf = 0;
constexpr uint32_t kErrorLeaf = NV_CTRL_VECTOR_PFIFO_STALL / 32;
constexpr uint32_t kPfifoBit = 1u << NV_CTRL_VECTOR_PFIFO_STALL % 32;
constexpr uint32_t kFaultBits = 1u << NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE % 32 |
                                1u << NV_CTRL_VECTOR_FAULT_NON_REPLAYABLE_ERROR % 32;
constexpr uint32_t kEngineSubtree = 1u << kEngineLeaf / 2;
constexpr uint32_t kErrorSubtree = 1u << kErrorLeaf / 2;
// What reads give when the device has left the bus.
constexpr uint32_t kGone = 0xffffffff;

}  // namespace

void InterruptTree::Enable() {
  PrivLeaf(~0u).WriteTo(os_, kEngineLeaf);
  PrivLeaf(~0u).WriteTo(os_, kErrorLeaf);
  PrivLeafEnSet(topology_.nonstall_mask).WriteTo(os_, kEngineLeaf);
  PrivLeafEnSet(kFaultBits | kPfifoBit).WriteTo(os_, kErrorLeaf);
  PrivTopEnSet(kEngineSubtree | kErrorSubtree).WriteTo(os_);
}

void InterruptTree::Disable() {
  PrivTopEnClear(kEngineSubtree | kErrorSubtree).WriteTo(os_);
  PrivLeafEnClear(~0u).WriteTo(os_, kEngineLeaf);
  PrivLeafEnClear(~0u).WriteTo(os_, kErrorLeaf);
}

// The message itself says that an engine's vector came: without asking which, all bits are cleared,
// and every runlist's waiters look at their semaphores. One exit in a virtual machine instead of
// two.
uint32_t InterruptTree::ClearEngines() {
  PrivLeaf(topology_.nonstall_mask).WriteTo(os_, kEngineLeaf);
  return TSG_EVENT_RUNLISTS;
}

uint32_t InterruptTree::HandleEngines() {
  const uint32_t leaf = PrivLeaf::ReadFrom(os_, kEngineLeaf).raw();
  const uint32_t pending = leaf & topology_.nonstall_mask;
  if (pending == 0 || leaf == kGone) return 0;
  PrivLeaf(pending).WriteTo(os_, kEngineLeaf);
  uint32_t events = 0;
  for (uint32_t r = 0; r < TSG_NUM_RUNLISTS; ++r) {
    if ((pending & topology_.nonstall_of_runlist[r]) != 0) events |= TSG_EVENT_RUNLIST(r);
  }
  return events;
}

uint32_t InterruptTree::HandleErrors() {
  const uint32_t leaf = PrivLeaf::ReadFrom(os_, kErrorLeaf).raw();
  const uint32_t pending = leaf & (kFaultBits | kPfifoBit);
  if (pending == 0 || leaf == kGone) return 0;
  if ((pending & kPfifoBit) != 0) PrivLeafEnClear(kPfifoBit).WriteTo(os_, kErrorLeaf);
  PrivLeaf(pending).WriteTo(os_, kErrorLeaf);
  return TSG_EVENT_ERRORS;
}

uint32_t InterruptTree::Handle(int vector) {
  uint32_t subtrees = 0;
  if (vector == static_cast<int>(kEngineLeaf / 2)) return ClearEngines();
  if (vector < 0) {
    subtrees = PrivTop::ReadFrom(os_).raw();
    if (subtrees == kGone) return 0;
  } else if (vector < 4) {
    subtrees = 1u << vector;
  }
  uint32_t events = 0;
  if ((subtrees & kEngineSubtree) != 0) events |= HandleEngines();
  if ((subtrees & kErrorSubtree) != 0) events |= HandleErrors();
  return events;
}

void InterruptTree::UnmaskPfifo() { PrivLeafEnSet(kPfifoBit).WriteTo(os_, kErrorLeaf); }

}  // namespace guest
