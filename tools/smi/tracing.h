// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A recording of the driver's tracepoints, in a trace instance of its own: whoever traces beside it
// is not disturbed.
#pragma once

#include <cstdint>
#include <string>

#include "fields.h"
#include "files.h"

namespace turnstile_smi {

class Tracing {
 public:
  explicit Tracing(const Files& files) : files_(files) {}
  // Takes the instance away, whatever became of it.
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  // Makes the instance and switches all events of the driver on, by CLOCK_MONOTONIC, as the slices
  // are. `buffer_kib`: per CPU; once it is full, the oldest events go. Throws Failure: no tracefs,
  // not root, no driver.
  void Start(uint64_t buffer_kib);
  // Ends the recording and returns it.
  TraceText Stop();

 private:
  void Set(const std::string& name, const std::string& value);

  const Files& files_;
  std::string folder_;  // of the instance; "": there is none
};

}  // namespace turnstile_smi
