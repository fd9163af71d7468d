// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Runs every file of a corpus through FUZZ_TARGET, a test each, by any compiler:
//
//   fuzz_csr_replay [GoogleTest's options] DIRECTORY | FILE...
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/entry.h"

namespace {

class Replay : public testing::Test {
 public:
  explicit Replay(std::filesystem::path file) : file_(std::move(file)) {}
  void TestBody() override {
    std::ifstream stream(file_, std::ios::binary);
    ASSERT_TRUE(stream) << file_;
    const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
    fuzz::Input input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    fuzz::FUZZ_TARGET(input);
  }

 private:
  const std::filesystem::path file_;
};

std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& file : FilesOf(argv[i])) {
      testing::RegisterTest("Replay", file.filename().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [file]() -> Replay* { return new Replay(file); });
      ++count;
    }
  }
  if (count == 0) {
    std::fprintf(stderr, "usage: %s DIRECTORY | FILE...\n", argv[0]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
