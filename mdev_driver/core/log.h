// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Lines for the log.
#pragma once

#include "core/host_abi.h"
#include "core/text_line.h"

namespace turnstile {

// One line; goes out when the object dies. Any context.
//
//   LogLine(gpu, nullptr, TS_LOG_WARNING) << "runlist " << 1 << " did not answer";
class LogLine : public TextLine {
 public:
  // `vgpu` may be null. `kind`: what a line that a guest can cause is about.
  LogLine(ts_host_gpu* gpu, ts_host_vgpu* vgpu, ts_log_level level,
          ts_log_kind kind = TS_LOG_UNLIMITED)
      : gpu_(gpu), vgpu_(vgpu), level_(level), kind_(kind) {}
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine() { ts_host_log(gpu_, vgpu_, level_, kind_, text()); }

 private:
  ts_host_gpu* gpu_;
  ts_host_vgpu* vgpu_;
  ts_log_level level_;
  ts_log_kind kind_;
};

}  // namespace turnstile
