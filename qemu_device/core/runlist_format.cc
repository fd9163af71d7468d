// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "runlist_format.h"

#include <algorithm>
#include <bitset>

#include "ts104/regs.h"
#include "ts104/typed.h"

namespace ts104 {
namespace {

constexpr uint64_t kTimesliceUnitNs = 1024;

template <typename Field>
uint32_t Get(const RunlistEntry& entry) {
  return static_cast<uint32_t>(Field::Get(std::span<const uint32_t>(entry)));
}

bool IsHeader(const RunlistEntry& entry) {
  return Get<ram::RamrlEntryTsg::Type>(entry) == NV_RAMRL_ENTRY_CHAN_TYPE_TSG;
}

}  // namespace

ParsedRunlist ParseRunlist(std::span<const RunlistEntry> entries) {
  ParsedRunlist list;
  std::bitset<TS104_PCI_NUM_CHANNELS> seen;
  entries = entries.first(std::min<size_t>(entries.size(), kMaxRunlistEntries));
  size_t next = 0;
  while (next < entries.size()) {
    const RunlistEntry& header = entries[next];
    list.bad = true;  // until this TSG has been found good
    if (!IsHeader(header)) return list;
    Tsg tsg;
    tsg.tsgid = Get<ram::RamrlEntryTsg::Tsgid>(header);
    tsg.gfid = Get<ram::RamrlEntryTsg::Gfid>(header);
    tsg.header_index = static_cast<uint32_t>(next);
    const uint64_t product = uint64_t{Get<ram::RamrlEntryTsg::TimesliceTimeout>(header)}
                             << Get<ram::RamrlEntryTsg::TimesliceScale>(header);
    tsg.timeslice_ns = std::max<uint64_t>(product, 1) * kTimesliceUnitNs;
    const uint32_t length = Get<ram::RamrlEntryTsg::Length>(header);
    if (length == 0 || length > NV_RAMRL_TSG_MAX_LENGTH) return list;
    if (length > entries.size() - next - 1 || tsg.gfid >= NV_CTRL_NUM_FUNCTIONS) return list;
    for (const RunlistEntry& entry : entries.subspan(next + 1, length)) {
      const uint32_t chid = Get<ram::RamrlEntryChan::Chid>(entry);
      if (IsHeader(entry) || seen[chid]) return list;
      seen.set(chid);
      tsg.chids.push_back(chid);
    }
    next += 1 + length;
    list.tsgs.push_back(std::move(tsg));
    list.bad = false;
  }
  return list;
}

}  // namespace ts104
