// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// libFuzzer's door to one target: FUZZ_TARGET, a function of fuzz/entry.h.
#include <cstddef>
#include <cstdint>

#include "fuzz/entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  fuzz::FUZZ_TARGET(input);
  return 0;
}
