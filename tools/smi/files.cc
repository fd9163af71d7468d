// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace turnstile_smi {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Files::Text Files::Read(std::string_view path, size_t largest) const {
  Text result;
  const Descriptor file(::open(Path(path).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    result.error = errno;
    return result;
  }
  std::array<char, 16384> buffer;
  while (result.text.size() < largest) {
    const ssize_t length = ::read(file.get(), buffer.data(), buffer.size());
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) result.error = errno;
    if (length <= 0) break;
    result.text.append(buffer.data(), static_cast<size_t>(length));
  }
  while (!result.text.empty() && result.text.back() == '\n') result.text.pop_back();
  return result;
}

std::optional<uint64_t> Files::ReadNumber(std::string_view path) const {
  const Text file = Read(path);
  return file.error ? std::nullopt : ParseNumber(file.text);
}

int Files::Write(std::string_view path, std::string_view text) const {
  const Descriptor file(::open(Path(path).c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (file.get() < 0) return errno;
  const ssize_t length = ::write(file.get(), text.data(), text.size());
  if (length < 0) return errno;
  return static_cast<size_t>(length) == text.size() ? 0 : EIO;
}

std::vector<std::string> Files::List(std::string_view path, int* error) const {
  std::vector<std::string> names;
  DIR* directory = ::opendir(Path(path).c_str());
  if (error) *error = directory ? 0 : errno;
  if (!directory) return names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::string Files::ReadLink(std::string_view path) const {
  std::array<char, 4096> target;
  const ssize_t length = ::readlink(Path(path).c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<size_t>(length)) : "";
}

bool Files::Exists(std::string_view path) const { return ::access(Path(path).c_str(), F_OK) == 0; }

int Files::MakeFolder(std::string_view path) const {
  return ::mkdir(Path(path).c_str(), 0700) == 0 ? 0 : errno;
}

int Files::RemoveFolder(std::string_view path) const {
  return ::rmdir(Path(path).c_str()) == 0 ? 0 : errno;
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace turnstile_smi
