// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "top.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "shares.h"
#include "text.h"

namespace turnstile_smi {
namespace {

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr size_t kLetterCount = sizeof(kLetters) - 1;
// SGR foregrounds that are told apart on light and on dark ground.
constexpr std::array<int, 6> kColours = {32, 36, 35, 33, 34, 31};
constexpr char kReset[] = "\033[0m";
// What a vGPU's line has beside its bar: letter, VM, type, numbers.
constexpr size_t kFixedColumns = 67;
constexpr size_t kNameColumns = 18;

char LetterOf(size_t index) { return kLetters[index % kLetterCount]; }

std::string Coloured(const std::string& text, size_t index, const Screen& screen) {
  if (!screen.colours) return text;
  return fmt::format("\033[{}m{}{}", kColours[index % kColours.size()], text, kReset);
}

// The first `columns` columns of UTF-8 text, filled up with blanks.
std::string Fit(const std::string& text, size_t columns) {
  std::string fitted;
  size_t width = 0;
  for (const char c : text) {
    const bool begins = (c & 0xC0) != 0x80;
    if (begins && width == columns) break;
    width += begins;
    fitted += c;
  }
  return fitted + std::string(columns - std::min(width, columns), ' ');
}

std::string Percent(std::optional<double> part) {
  return part ? fmt::format("{:5.1f} %", *part * 100) : "      -";
}

std::string NameOf(const Vgpu& vgpu) {
  const std::string name = UserName(vgpu);
  return name == "-" ? vgpu.uuid : name;
}

// "#####|....": filled as far as it is used, '|' where the share that was ordered ends.
std::string Bar(std::optional<double> used, std::optional<double> ordered, size_t columns) {
  std::string bar(columns, '.');
  const auto column = [&](double part) {
    return static_cast<size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(columns) + 0.5);
  };
  if (used) std::fill_n(bar.begin(), column(*used), '#');
  if (ordered && columns > 0) bar[std::min(column(*ordered), columns - 1)] = '|';
  return bar;
}

// Whose column of the strip it is: an index into the GPU's vGPUs, nobody, or not known.
constexpr size_t kNobody = SIZE_MAX;
constexpr size_t kNotKnown = SIZE_MAX - 1;

// How long each vGPU was on the engine from `begin` for `length`; last, for how long nobody was.
std::vector<double> Times(const Gpu& gpu, const std::vector<Slice>& slices, uint64_t begin,
                          uint64_t length) {
  std::vector<double> times(gpu.vgpus.size() + 1);
  times.back() = static_cast<double>(length);
  for (const Slice& slice : slices) {
    const uint64_t first = std::max(slice.start_ns, begin);
    const uint64_t last = std::min(slice.end_ns, begin + length);
    if (first >= last) continue;
    for (size_t v = 0; v < gpu.vgpus.size(); ++v) {
      if (slice.function != gpu.vgpus[v].function) continue;
      times[v] += static_cast<double>(last - first);
      times.back() -= static_cast<double>(last - first);
    }
  }
  return times;
}

// A column goes to the one of those in it who is most behind with what it had so far: so each has
// as many as are its due, also who never had the most of a column.
std::vector<size_t> Strip(const Gpu& gpu, const std::vector<Slice>& slices, uint64_t now_ns,
                          size_t columns) {
  std::vector<size_t> owners(columns, kNotKnown);
  std::vector<double> due(gpu.vgpus.size() + 1);
  const uint64_t length = SliceHistory::kLengthNs / columns;
  const uint64_t begin = now_ns - length * columns;
  for (size_t i = 0; i < columns; ++i) {
    const uint64_t from = begin + i * length;
    if (slices.empty() || from + length <= slices.front().start_ns) continue;
    const std::vector<double> times = Times(gpu, slices, from, length);
    size_t chosen = due.size() - 1;
    for (size_t v = 0; v < due.size(); ++v) {
      due[v] += times[v];
      if (times[v] > 0 && (times[chosen] <= 0 || due[v] > due[chosen])) chosen = v;
    }
    due[chosen] -= static_cast<double>(length);
    owners[i] = chosen == gpu.vgpus.size() ? kNobody : chosen;
  }
  return owners;
}

std::string StripText(const std::vector<size_t>& owners, const Screen& screen) {
  std::string text;
  for (const size_t owner : owners) {
    if (owner == kNotKnown) {
      text += ' ';
    } else if (owner == kNobody) {
      text += '.';
    } else {
      text += Coloured(std::string(1, LetterOf(owner)), owner, screen);
    }
  }
  return text;
}

// Indices of the GPU's vGPUs in the order they are shown in.
std::vector<size_t> Sorted(const Gpu& gpu, SortBy sort) {
  std::vector<size_t> order(gpu.vgpus.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Vgpu& left = gpu.vgpus[a];
    const Vgpu& right = gpu.vgpus[b];
    if (sort == SortBy::kUtilisation)
      return Utilisation(left, kGr).value_or(-1) > Utilisation(right, kGr).value_or(-1);
    if (sort == SortBy::kVm) return NameOf(left) < NameOf(right);
    return false;
  });
  return order;
}

std::string VgpuLine(const Vgpu& vgpu, size_t index, const Screen& screen) {
  const size_t bar = screen.columns > kFixedColumns + 10 ? screen.columns - kFixedColumns : 0;
  const std::string line = fmt::format(
      "{} {} {} {:>8} {:>8} {:>8}  {:7}", LetterOf(index), Fit(NameOf(vgpu), kNameColumns),
      Fit(ShortType(vgpu.type), 9), Percent(Utilisation(vgpu, kGr)), Percent(ShareMeasured(vgpu)),
      Percent(vgpu.share_ordered), ToString(vgpu.state));
  return Fit(line, std::min(screen.columns, kFixedColumns - 1)) +
         (bar ? " " + Coloured(Bar(Utilisation(vgpu, kGr), vgpu.share_ordered, bar), index, screen)
              : "");
}

}  // namespace

const char* ToString(SortBy sort) {
  switch (sort) {
    case SortBy::kFunction: return "number";
    case SortBy::kUtilisation: return "utilisation";
    case SortBy::kVm: break;
  }
  return "VM";
}

void SliceHistory::Add(const std::string& gpu, const std::vector<Slice>& slices) {
  for (const Slice& slice : slices) {
    std::vector<Slice>& known = slices_[{gpu, slice.runlist}];
    if (known.empty() || slice.start_ns >= known.back().end_ns) known.push_back(slice);
  }
  for (auto& [key, known] : slices_) {
    const uint64_t last = known.back().end_ns;
    std::erase_if(known, [&](const Slice& slice) { return slice.end_ns + kLengthNs < last; });
  }
}

const std::vector<Slice>& SliceHistory::Of(const std::string& gpu, uint64_t runlist) const {
  static const std::vector<Slice> kNone;
  const auto found = slices_.find({gpu, runlist});
  return found == slices_.end() ? kNone : found->second;
}

std::string TopFrame(const Host& host, const SliceHistory& history, uint64_t now_ns, SortBy sort,
                     const Screen& screen) {
  std::vector<std::string> lines;
  for (const Gpu& gpu : host.gpus) {
    lines.push_back(
        Fit(fmt::format("GPU {}  {}  {} vGPUs  VRAM {} of {}  GR {}", gpu.address,
                        gpu.lost ? "lost" : gpu.policy, gpu.vgpu_count, MiB(gpu.vram_given_bytes),
                        MiB(gpu.vram_bytes), Percent(Utilisation(gpu, kGr))),
            screen.columns));
    const std::vector<Slice>& slices = history.Of(gpu.address, kGr);
    constexpr size_t kCaption = 6;
    if (!slices.empty() && screen.columns > 2 * kCaption) {
      lines.push_back("-1 s [" +
                      StripText(Strip(gpu, slices, now_ns, screen.columns - kCaption - 1), screen) +
                      "]");
    }
    lines.push_back(Fit(fmt::format("  {:18} {:9} {:>8} {:>8} {:>8}  {:7}", "VM", "type", "GR",
                                    "share", "ordered", "state"),
                        screen.columns));
    for (const size_t index : Sorted(gpu, sort)) {
      lines.push_back(VgpuLine(gpu.vgpus[index], index, screen));
    }
  }
  for (const std::string& note : host.notes) {
    lines.push_back(Fit("not shown: " + note, screen.columns));
  }
  std::string frame;
  for (size_t i = 0; i < std::min(lines.size(), screen.rows); ++i) frame += lines[i] + "\n";
  return frame;
}

}  // namespace turnstile_smi
