// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sha256.h"
#include "ts104_programs.h"

namespace ts104_run {

namespace {

using libts104::Buffer;
using libts104::Dim3;
using libts104::Error;
using libts104::Placement;
using libts104::Program;

constexpr uint32_t kCta = 128;
constexpr uint32_t kMaxCtas = 256;

Placement InputPlacement(PlacementMode mode) {
  return mode == PlacementMode::kVram ? Placement::kVram : Placement::kSysmem;
}

Placement OutputPlacement(PlacementMode mode) {
  return mode == PlacementMode::kSysmem ? Placement::kSysmem : Placement::kVram;
}

// The same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  // -1 .. 1 in steps that a float holds exactly.
  float NextFloat() {
    return static_cast<float>(static_cast<int32_t>(Next() % 2001) - 1000) / 1000;
  }

 private:
  uint64_t state_;
};

Dim3 GridFor(uint64_t items, uint32_t cta) {
  const uint64_t ctas = (items + cta - 1) / cta;
  return {static_cast<uint32_t>(std::clamp<uint64_t>(ctas, 1, kMaxCtas)), 1, 1};
}

template <typename T>
bool Same(std::span<const T> got, std::span<const T> expected, Result* result) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0) {
      result->detail = fmt::format("element {} is {}, expected {}", i, got[i], expected[i]);
      return false;
    }
  }
  return true;
}

void CheckCount(uint64_t count) {
  if (count == 0) throw Error("--elements must be at least 1");
  if (count > UINT64_MAX / 64) throw Error(fmt::format("--elements {} is too large", count));
}

void VecAdd(Session& session, const std::string&, Result* result) {
  const uint64_t count = session.options().elements;
  CheckCount(count);
  const Program program = session.Load("vecadd");
  Buffer a = session.Input(count * 4);
  Buffer b = session.Input(count * 4);
  Buffer c = session.Output(count * 4);
  Random random(1);
  std::vector<uint32_t> expected(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t x = a.as<uint32_t>()[i] = random.Next();
    const uint32_t y = b.as<uint32_t>()[i] = random.Next();
    expected[i] = x + y;
  }
  const ts104_vecadd_args args = {a.va(), b.va(), c.va(), count};
  session.Iterate(
      [&] { session.stream().Launch(program, GridFor(count, kCta), {kCta, 1, 1}, args); });
  result->verified = Same<uint32_t>(c.as<uint32_t>(), expected, result);
}

void Saxpy(Session& session, const std::string&, Result* result) {
  const uint64_t count = session.options().elements;
  CheckCount(count);
  const Program program = session.Load("saxpy");
  Buffer x = session.Input(count * 4);
  Buffer start = session.Input(count * 4);
  Buffer y = session.Output(count * 4);
  Random random(2);
  const float alpha = 0.75f;
  std::vector<float> expected(count);
  for (uint64_t i = 0; i < count; ++i) {
    const float vx = x.as<float>()[i] = random.NextFloat();
    const float vy = start.as<float>()[i] = random.NextFloat();
    expected[i] = std::fma(alpha, vx, vy);
  }
  const ts104_saxpy_args args = {x.va(), y.va(), count, alpha, 0};
  session.Iterate([&] {
    session.stream().Copy(y.va(), start.va(), count * 4);
    session.stream().Launch(program, GridFor(count, kCta), {kCta, 1, 1}, args);
  });
  result->verified = Same<float>(y.as<float>(), expected, result);
}

void Sgemm(Session& session, const std::string&, Result* result) {
  const uint32_t n = session.options().matrix;
  if (n == 0 || n > 8192) throw Error(fmt::format("--matrix {} is not in 1 .. 8192", n));
  const uint64_t count = uint64_t{n} * n;
  const Program program = session.Load("sgemm");
  Buffer a = session.Input(count * 4);
  Buffer b = session.Input(count * 4);
  Buffer c = session.Output(count * 4);
  Random random(3);
  std::vector<float> ha(count);
  std::vector<float> hb(count);
  for (float& value : ha) value = random.NextFloat();
  for (float& value : hb) value = random.NextFloat();
  std::copy(ha.begin(), ha.end(), a.as<float>().begin());
  std::copy(hb.begin(), hb.end(), b.as<float>().begin());
  ts104_sgemm_args args = {};
  args.a = a.va();
  args.b = b.va();
  args.c = c.va();
  args.m = args.n = args.k = n;
  args.alpha = 1;
  const uint32_t tiles = (n + TS104_SGEMM_TILE - 1) / TS104_SGEMM_TILE;
  const Dim3 cta = {TS104_SGEMM_TILE, TS104_SGEMM_CTA_ROWS, 1};
  session.Iterate([&] { session.stream().Launch(program, {tiles, tiles, 1}, cta, args); });

  std::vector<float> expected(count);
  for (uint32_t row = 0; row < n; ++row) {
    // k in the middle: the same order of additions per element, and rows of b in sequence.
    float* out = &expected[uint64_t{row} * n];
    for (uint32_t k = 0; k < n; ++k) {
      const float left = ha[uint64_t{row} * n + k];
      const float* right = &hb[uint64_t{k} * n];
      for (uint32_t column = 0; column < n; ++column) {
        out[column] = std::fma(left, right[column], out[column]);
      }
    }
  }
  result->verified = Same<float>(c.as<float>(), expected, result);
}

void Reduce(Session& session, const std::string&, Result* result) {
  const uint64_t count = session.options().elements;
  CheckCount(count);
  const Program program = session.Load("reduce");
  Buffer data = session.Input(count * 4);
  Buffer zero = session.Input(8);
  Buffer sum = session.Output(8);
  Random random(4);
  uint64_t expected = 0;
  for (uint32_t& value : data.as<uint32_t>()) expected += value = random.Next();
  const ts104_reduce_args args = {data.va(), sum.va(), count};
  session.Iterate([&] {
    session.stream().Copy(sum.va(), zero.va(), 8);
    session.stream().Launch(program, GridFor(count, TS104_REDUCE_CTA * 8), {TS104_REDUCE_CTA, 1, 1},
                            args);
  });
  result->verified = Same<uint64_t>(sum.as<uint64_t>(), std::span(&expected, 1), result);
}

void Histogram(Session& session, const std::string&, Result* result) {
  CheckCount(session.options().elements);
  const uint64_t bytes = session.options().elements * 4;
  const Program program = session.Load("histogram");
  Buffer data = session.Input(bytes);
  Buffer zero = session.Input(256 * 4);
  Buffer bins = session.Output(256 * 4);
  Random random(5);
  std::vector<uint32_t> expected(256);
  for (uint8_t& value : data.as<uint8_t>()) {
    value = static_cast<uint8_t>(random.Next() % 251);
    ++expected[value];
  }
  const ts104_histogram_args args = {data.va(), bins.va(), bytes};
  session.Iterate([&] {
    session.stream().Copy(bins.va(), zero.va(), 256 * 4);
    session.stream().Launch(program, GridFor(bytes, kCta * 32), {kCta, 1, 1}, args);
  });
  result->verified = Same<uint32_t>(bins.as<uint32_t>(), expected, result);
}

std::vector<uint8_t> TreeData(const Options& options, const std::string& file) {
  if (file.empty()) {
    CheckCount(options.elements);
    std::vector<uint8_t> data(options.elements * 4 - 1);  // the last leaf is a short one
    Random random(6);
    for (uint8_t& value : data) value = static_cast<uint8_t>(random.Next());
    return data;
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(fmt::format("cannot open {}: {}", file, std::strerror(errno)));
  std::vector<uint8_t> data{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw Error(fmt::format("cannot read {}", file));
  if (data.empty()) throw Error(fmt::format("{} is empty", file));
  return data;
}

void Sha256Tree(Session& session, const std::string& file, Result* result) {
  const uint32_t leaf_bytes = session.options().leaf_bytes;
  if (leaf_bytes == 0) throw Error("--leaf-bytes must be at least 1");
  const std::vector<uint8_t> host = TreeData(session.options(), file);
  const uint64_t leaves = (host.size() + leaf_bytes - 1) / leaf_bytes;
  const Program program = session.Load("sha256_tree");
  Buffer data = session.Input(host.size());
  std::memcpy(data.data(), host.data(), host.size());
  std::array<Buffer, 2> levels = {session.Output(leaves * 32), session.Output(leaves * 32)};
  size_t last = 0;
  session.Iterate([&] {
    ts104_sha256_tree_args args = {data.va(), levels[0].va(), host.size(), leaf_bytes,
                                   TS104_SHA256_MODE_LEAVES};
    session.stream().Launch(program, GridFor(leaves, 32), {32, 1, 1}, args);
    last = 0;
    for (uint64_t count = leaves; count > 1; count = (count + 1) / 2) {
      args = {levels[last].va(), levels[1 - last].va(), count, leaf_bytes, TS104_SHA256_MODE_NODES};
      session.stream().Launch(program, GridFor((count + 1) / 2, 32), {32, 1, 1}, args);
      last = 1 - last;
    }
  });
  const Hash expected = MerkleRoot(host, leaf_bytes);
  const auto got = levels[last].as<uint8_t>().first(32);
  result->verified = std::equal(expected.begin(), expected.end(), got.begin());
  for (const uint8_t byte : got) result->detail += fmt::format("{:02x}", byte);
}

// --- Programs that fail on purpose ---

void FaultStore(Session& session, const std::string&, Result*) {
  const Program program = session.Load("wild_store");
  const ts104_wild_store_args args = {session.options().address, 0x600dbad, 0};
  session.Iterate([&] { session.stream().Launch(program, {1, 1, 1}, {32, 1, 1}, args); });
}

void FaultTrap(Session& session, const std::string&, Result*) {
  const Program program = session.Load("trap");
  const ts104_trap_args args = {42};
  session.Iterate([&] { session.stream().Launch(program, {1, 1, 1}, {32, 1, 1}, args); });
}

void FaultStack(Session& session, const std::string&, Result*) {
  const Program program = session.Load("stack_overrun");
  const ts104_stack_overrun_args args = {};
  session.Iterate([&] { session.stream().Launch(program, {1, 1, 1}, {1, 1, 1}, args); });
}

void Endless(Session& session, const std::string&, Result*) {
  const Program program = session.Load("endless_loop");
  Buffer counter = session.Output(4);
  const ts104_endless_loop_args args = {counter.va()};
  try {
    session.Iterate([&] { session.stream().Launch(program, {1, 1, 1}, {1, 1, 1}, args); });
  } catch (const Error&) {
    session.stream().Reset();  // off the GPU before its memory goes
    throw;
  }
}

// --- Not a program: leaves a mark wherever there is VRAM, for whoever looks for it later ---

void VramFill(Session& session, const std::string& argument, Result* result) {
  constexpr uint64_t kChunk = uint64_t{4} << 20;
  const std::string mark = argument.empty() ? "ts104-run vram-fill" : argument;
  std::vector<Buffer> chunks;
  try {
    while (true) chunks.push_back(session.device().Alloc(kChunk, Placement::kVram));
  } catch (const Error&) {
    // VRAM is full.
  }
  for (Buffer& chunk : chunks) {
    const std::span<char> bytes = chunk.as<char>();
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = mark[i % mark.size()];
  }
  result->detail = fmt::format("{} MiB", (chunks.size() * kChunk) >> 20);
  result->verified = !chunks.empty();
}

enum class Kind { kComputes, kFailsOnPurpose, kOther };

using Function = void (*)(Session&, const std::string& argument, Result*);
struct Entry {
  const char* name;
  Function run;
  Kind kind;
};
constexpr Entry kPrograms[] = {
    {"vecadd", VecAdd, Kind::kComputes},
    {"saxpy", Saxpy, Kind::kComputes},
    {"sgemm", Sgemm, Kind::kComputes},
    {"reduce", Reduce, Kind::kComputes},
    {"histogram", Histogram, Kind::kComputes},
    {"sha256-tree", Sha256Tree, Kind::kComputes},
    {"fault-store", FaultStore, Kind::kFailsOnPurpose},
    {"fault-trap", FaultTrap, Kind::kFailsOnPurpose},
    {"fault-stack", FaultStack, Kind::kFailsOnPurpose},
    {"endless", Endless, Kind::kFailsOnPurpose},
    {"vram-fill", VramFill, Kind::kOther},
};

std::pair<std::string, std::string> Split(const std::string& spec) {
  const size_t equals = spec.find('=');
  if (equals == std::string::npos) return {spec, ""};
  return {spec.substr(0, equals), spec.substr(equals + 1)};
}

// Time, counters and errors around `body`.
template <typename Body>
Result Measure(libts104::Device& device, const Options& options, const std::string& name,
               Body&& body) {
  Result result;
  result.name = name;
  const auto start = std::chrono::steady_clock::now();
  try {
    Session session(device, options);
    try {
      body(session, &result);
    } catch (const libts104::FaultError& error) {
      result.fault = error.fault;
      result.error = error.what();
    }
    const libts104::StreamCounters counters = session.stream().counters();
    result.submissions = counters.submissions;
    result.launches = counters.launches;
    result.gpu_time_ns = counters.gpu_time_ns;
  } catch (const Error& error) {
    result.error = error.what();
  }
  if (!result.error.empty()) result.verified = false;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  result.time_s = elapsed.count();
  return result;
}

}  // namespace

Session::Session(libts104::Device& device, const Options& options)
    : device_(device),
      options_(options),
      input_(InputPlacement(options.placement)),
      output_(OutputPlacement(options.placement)),
      stream_(device, libts104::Engine::kCompute, input_) {}

Buffer Session::Input(uint64_t bytes) { return device_.Alloc(bytes, input_); }
Buffer Session::Output(uint64_t bytes) { return device_.Alloc(bytes, output_); }

Program Session::Load(const std::string& embedded_name) {
  return Program::Embedded(device_, embedded_name, output_);
}

Program Session::LoadFile(const std::string& path) {
  return Program::FromFile(device_, path, output_);
}

void Session::Iterate(const std::function<void()>& record) {
  for (uint32_t i = 0; i < options_.iterations; ++i) {
    record();
    stream_.Synchronize(timeout_ns());
  }
}

std::vector<std::string> AllPrograms() {
  std::vector<std::string> names;
  for (const Entry& entry : kPrograms) {
    if (entry.kind == Kind::kComputes) names.emplace_back(entry.name);
  }
  return names;
}

bool IsProgram(const std::string& spec) {
  const std::string name = Split(spec).first;
  return std::any_of(std::begin(kPrograms), std::end(kPrograms),
                     [&](const Entry& entry) { return name == entry.name; });
}

Result RunProgram(libts104::Device& device, const Options& options, const std::string& spec) {
  // Not a structured binding: clang 14 cannot capture those.
  const std::pair<std::string, std::string> parts = Split(spec);
  const std::string& name = parts.first;
  const std::string& argument = parts.second;
  const auto entry = std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                  [&](const Entry& e) { return name == e.name; });
  return Measure(device, options, name, [&](Session& session, Result* result) {
    if (entry == std::end(kPrograms)) throw Error(fmt::format("no program '{}'", name));
    entry->run(session, argument, result);
    if (entry->kind == Kind::kFailsOnPurpose) {
      throw Error("the program ended, which it should not have");
    }
  });
}

Result RunElf(libts104::Device& device, const Options& options, const std::string& path) {
  return Measure(device, options, "elf", [&](Session& session, Result* result) {
    const Program program = session.LoadFile(path);
    Buffer buffer = session.Output(options.buffer_bytes);
    std::vector<std::byte> args(std::max<size_t>(program.image().argument_bytes, 16));
    const uint64_t first[] = {buffer.va(), buffer.size()};
    std::memcpy(args.data(), first, sizeof(first));
    session.Iterate([&] {
      session.stream().Launch(program, options.grid, options.cta, std::span<const std::byte>(args));
    });
    const auto words = buffer.as<uint32_t>();
    for (size_t i = 0; i < std::min<size_t>(words.size(), 8); ++i) {
      result->detail += fmt::format("{}{:08x}", i == 0 ? "" : " ", words[i]);
    }
    result->verified = true;  // ran to its end; there is nothing to compare with
  });
}

}  // namespace ts104_run
