// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A guest's runlist, checked; and the lists that the hardware gets.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/vector.h"

namespace turnstile {

using base::Status;

inline constexpr uint32_t kNumRunlists = 3;
inline constexpr uint32_t kRunlistEntryWords = 4;
inline constexpr uint32_t kMaxHardwareEntries = 4096 + 4096;

// What a guest submitted, in its own CHIDs and TSGIDs, all in range and none twice.
class SoftwareRunlist {
 public:
  struct Tsg {
    uint16_t tsgid = 0;
    uint8_t timeslice_scale = 0;
    uint8_t timeslice_timeout = 0;
    uint16_t first = 0;  // index into chids()
    uint16_t length = 0;
    uint16_t header = 0;  // entry index of its header in the guest's list
  };

  bool empty() const { return tsgs_.empty(); }
  const base::Vector<Tsg>& tsgs() const { return tsgs_; }
  const base::Vector<uint16_t>& chids() const { return chids_; }
  uint32_t entries() const { return static_cast<uint32_t>(tsgs_.size() + chids_.size()); }
  // The TSG with this id, or null.
  const Tsg* Find(uint32_t tsgid) const;

 private:
  friend class RunlistParser;
  base::Vector<Tsg> tsgs_;
  base::Vector<uint16_t> chids_;
};

// Takes a guest's list entry by entry. The rules are the hardware's (register map §4, Submit): the
// list ends before the first bad TSG.
class RunlistParser {
 public:
  // `channels`: CHIDs and TSGIDs 0..channels-1 belong to the guest. kNoMemory.
  Status Init(uint32_t channels);
  // One entry of four words. kInvalidArgument: the list ended before this TSG, feed no more.
  // kNoMemory.
  Status Feed(const uint32_t* entry);
  // After the last entry. kInvalidArgument: the last TSG was cut short; it is not in the list.
  Status Finish();

  // What is whole of it: a TSG that ended early, for whatever reason, is not in the list.
  SoftwareRunlist Take();

 private:
  Status BeginTsg(const uint32_t* entry);
  Status AddChannel(const uint32_t* entry);
  Status Reject();

  uint32_t channels_ = 0;
  uint32_t missing_ = 0;  // channels that the open TSG still wants
  uint16_t position_ = 0;
  base::DynArray<uint64_t> seen_;
  SoftwareRunlist list_;
};

// The pointers of a channel entry; hardware ignores them, but they must agree (dev_ram, RAMRL).
struct ChannelPointers {
  uint64_t instance = 0;  // DMA address of the shadow instance block, 0: unbound
  uint64_t userd = 0;
  bool userd_system = false;
};

// Words of the two kinds of entry, physical ids.
void MakeTsgEntry(const SoftwareRunlist::Tsg& tsg, uint32_t function, uint32_t physical_tsgid,
                  uint32_t* words);
void MakeChannelEntry(uint32_t physical_chid, const ChannelPointers& pointers, uint32_t* words);

}  // namespace turnstile
