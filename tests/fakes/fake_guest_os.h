// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The OS and the device as guest_driver/core sees them, made of arrays: registers keep what was
// written unless a test gives them a meaning.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guest_driver/core/guest_abi.h"
#include "guest_driver/core/os.h"

namespace fakes {

class FakeGuestOs {
 public:
  explicit FakeGuestOs(uint64_t vram_bytes = 16u << 20) : vram(vram_bytes), os(Ops(), this) {}

  std::vector<uint8_t> vram;
  std::map<uint32_t, uint32_t> registers;
  std::vector<std::pair<uint32_t, uint32_t>> writes;
  // Called after a write was stored; may change registers.
  std::function<void(uint32_t offset, uint32_t value)> on_write;
  // Called at every wait with the microseconds; time moves by itself.
  std::function<void(uint32_t us)> on_relax;
  std::vector<std::string> log;
  uint64_t now_ns = 0;
  int dma_pages = 0;
  int dma_pages_left = 1000;  // then allocation fails
  guest::Os os;

  uint64_t Word64(uint64_t offset) const {
    uint64_t word = 0;
    std::memcpy(&word, &vram.at(offset + 7) - 7, sizeof(word));
    return word;
  }

  static const tsg_os_ops& Ops() {
    static const tsg_os_ops ops = {
        .read32 = [](void* self, uint32_t offset) { return In(self).registers[offset]; },
        .write32 =
            [](void* self, uint32_t offset, uint32_t value) {
              In(self).writes.emplace_back(offset, value);
              In(self).registers[offset] = value;
              if (In(self).on_write) In(self).on_write(offset, value);
            },
        .vram_read =
            [](void* self, uint64_t offset, void* to, size_t length) {
              std::memcpy(to, &In(self).vram.at(offset + length - 1) - (length - 1), length);
            },
        .vram_write =
            [](void* self, uint64_t offset, const void* from, size_t length) {
              std::memcpy(&In(self).vram.at(offset + length - 1) - (length - 1), from, length);
            },
        .vram_zero =
            [](void* self, uint64_t offset, uint64_t length) {
              std::memset(&In(self).vram.at(offset + length - 1) - (length - 1), 0, length);
            },
        .dma_page_alloc =
            [](void* self, tsg_dma_page* page) {
              if (In(self).dma_pages_left == 0) return -12;
              --In(self).dma_pages_left;
              ++In(self).dma_pages;
              auto* words = new uint64_t[TSG_PAGE_SIZE / 8]();
              page->cpu = words;
              page->dma = 0x100000000 + static_cast<uint64_t>(In(self).dma_pages) * TSG_PAGE_SIZE;
              page->cookie = words;
              return 0;
            },
        .dma_page_free =
            [](void* self, const tsg_dma_page* page) {
              --In(self).dma_pages;
              delete[] static_cast<uint64_t*>(page->cookie);
            },
        .now_ns = [](void* self) { return In(self).now_ns; },
        .relax =
            [](void* self, uint32_t us) {
              In(self).now_ns += uint64_t{us} * 1000;
              if (In(self).on_relax) In(self).on_relax(us);
            },
        .log = [](void* self, tsg_log_level, const char* line) { In(self).log.push_back(line); },
    };
    return ops;
  }

 private:
  static FakeGuestOs& In(void* self) { return *static_cast<FakeGuestOs*>(self); }
};

}  // namespace fakes
