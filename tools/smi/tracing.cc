// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "tracing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "failure.h"

namespace turnstile_smi {
namespace {

constexpr char kTracefs[] = "/sys/kernel/tracing";

}  // namespace

Tracing::~Tracing() {
  if (!folder_.empty()) files_.RemoveFolder(folder_);
}

void Tracing::Start(uint64_t buffer_kib) {
  const std::string instances = std::string(kTracefs) + "/instances";
  const std::string folder = fmt::format("{}/turnstile-smi-{}", instances, ::getpid());
  if (const int error = files_.MakeFolder(folder)) {
    if (error == EACCES || error == EPERM) throw Failure{kFailed, "only root may trace"};
    if (error == ENOENT) {
      throw Failure{
          kFailed, fmt::format("there is no {}: mount -t tracefs tracefs {}", instances, kTracefs)};
    }
    throw Failure{kFailed, fmt::format("{} cannot be made: {}", folder, std::strerror(error))};
  }
  folder_ = folder;
  Set("trace_clock", "mono");
  Set("buffer_size_kb", fmt::to_string(buffer_kib));
  Set("events/turnstile/enable", "1");
}

TraceText Tracing::Stop() {
  Set("tracing_on", "0");
  const Files::Text text = files_.Read(folder_ + "/trace", std::numeric_limits<size_t>::max());
  if (text.error) {
    throw Failure{kFailed, fmt::format("{}/trace: {}", folder_, std::strerror(text.error))};
  }
  return ParseTrace(text.text);
}

void Tracing::Set(const std::string& name, const std::string& value) {
  const std::string path = folder_ + "/" + name;
  if (const int error = files_.Write(path, value)) {
    throw Failure{kFailed,
                  fmt::format("{} does not take {}: {}", path, value, std::strerror(error))};
  }
}

}  // namespace turnstile_smi
