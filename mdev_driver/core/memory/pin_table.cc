// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/memory/pin_table.h"

#include <utility>

namespace turnstile {

namespace {

constexpr unsigned kShift = 12;

// Sorts in place without recursion or extra memory: O(n log n) whatever the guest arranged.
void HeapSort(uint64_t* values, size_t count) {
  const auto sift_down = [values](size_t root, size_t end) {
    for (size_t child = 2 * root + 1; child < end; child = 2 * root + 1) {
      if (child + 1 < end && values[child] < values[child + 1]) ++child;
      if (values[root] >= values[child]) return;
      std::swap(values[root], values[child]);
      root = child;
    }
  };
  for (size_t root = count / 2; root-- > 0;) sift_down(root, count);
  for (size_t end = count; end > 1;) {
    --end;
    std::swap(values[0], values[end]);
    sift_down(0, end);
  }
}

}  // namespace

PinTable::~PinTable() {
  pins_.ForEach([](uint64_t, Pin& pin) { pin.references = 0; });
  scan_needed_ = true;
  Flush();
}

void PinTable::Acquire(base::Gpa gpa, uint32_t count, uint64_t* dma, uint32_t batch) {
  const uint64_t first = gpa.value() >> kShift;
  uint32_t unpinned = 0;  // pages before `i` that wait to be pinned together
  for (uint32_t i = 0; i < count; ++i) {
    Pin* pin = pins_.Find(first + i);
    if (pin == nullptr) {
      ++unpinned;
      continue;
    }
    ++pin->references;
    dma[i] = pin->dma;
    PinRun(first + i - unpinned, unpinned, dma + i - unpinned, batch);
    unpinned = 0;
  }
  PinRun(first + count - unpinned, unpinned, dma + count - unpinned, batch);
}

// None of these pages is in the table. After a page that cannot be pinned the batch starts again at
// one page and doubles, so a run of bad pages costs one call each and no more.
void PinTable::PinRun(uint64_t first_page, uint32_t count, uint64_t* dma, uint32_t batch) {
  uint32_t step = batch;
  for (uint32_t done = 0; done < count;) {
    uint32_t want = count - done < step ? count - done : step;
    if (pins_.size() + want > kMaxPages) {
      limit_reached_ = true;
      want = 0;
    }
    uint32_t got = 0;
    if (want != 0) {
      ++host_calls_;
      got = ts_host_pin(vgpu_, (first_page + done) << kShift, want, dma + done);
    }
    for (uint32_t i = done; i < done + got; ++i) {
      if (!Insert(first_page + i, dma[i])) dma[i] = kNoDma;
    }
    done += got;
    step = step * 2 < batch ? step * 2 : batch;
    if (got == want && want != 0) continue;
    dma[done++] = kNoDma;
    step = 1;
  }
}

bool PinTable::Insert(uint64_t page, uint64_t dma) {
  Pin pin;
  pin.dma = dma;
  pin.references = 1;
  if (pins_.TryInsert(page, pin) == Status::kOk) {
    ++pinned_total_;
    return true;
  }
  ts_host_unpin(vgpu_, page << kShift, 1, &dma);
  return false;
}

void PinTable::Release(base::Gpa gpa) {
  Pin* pin = pins_.Find(gpa.value() >> kShift);
  TS_CHECK(pin != nullptr && pin->references > 0);
  if (--pin->references > 0) return;
  if (unreferenced_.TryPushBack(gpa.value() >> kShift) != Status::kOk) scan_needed_ = true;
}

bool PinTable::FlushSome(size_t pages) {
  if (scan_needed_) {
    // The list was cut short: one page at a time needs no memory.
    scan_needed_ = false;
    unreferenced_.Clear();
    pins_.EraseIf([this](uint64_t page, Pin& pin) {
      if (pin.references > 0) return false;
      ts_host_unpin(vgpu_, page << kShift, 1, &pin.dma);
      return true;
    });
    return true;
  }
  const size_t size = unreferenced_.size();
  const size_t count = size < pages ? size : pages;
  uint64_t* const last = unreferenced_.data() + (size - count);
  HeapSort(last, count);
  UnpinSorted(last, count);
  unreferenced_.Truncate(size - count);
  return size == count;
}

// `pages` is sorted and may name a page twice, or one that is referenced again.
void PinTable::UnpinSorted(uint64_t* pages, size_t count) {
  constexpr uint32_t kRun = 64;  // on the stack; the host's batches gain little beyond
  uint64_t dma[kRun];
  uint64_t first = 0;
  uint32_t run = 0;
  const auto flush_run = [&] {
    if (run != 0) ts_host_unpin(vgpu_, first << kShift, run, dma);
    run = 0;
  };
  for (size_t i = 0; i < count; ++i) {
    const Pin* pin = pins_.Find(pages[i]);
    if (pin == nullptr || pin->references > 0) continue;
    if (run == kRun || (run != 0 && pages[i] != first + run)) flush_run();
    if (run == 0) first = pages[i];
    dma[run++] = pin->dma;
    pins_.Erase(pages[i]);
  }
  flush_run();
}

bool PinTable::AnyPinned(uint64_t start, uint64_t length) const {
  if (length == 0 || pins_.empty()) return false;
  const uint64_t first = start >> kShift;
  const uint64_t last = (start + (length - 1)) >> kShift;
  if (last - first < pins_.size()) {
    for (uint64_t page = first; page <= last; ++page) {
      if (pins_.Contains(page)) return true;
    }
    return false;
  }
  bool any = false;
  pins_.ForEach([&](uint64_t page, const Pin&) { any = any || (page >= first && page <= last); });
  return any;
}

}  // namespace turnstile
