// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A folder that looks like a machine's /sys and /proc, from a listing (tree.py says in which form).
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace turnstile_smi {

class Tree {
 public:
  Tree() : root_(testing::TempDir() + "smi-XXXXXX") {
    if (!mkdtemp(root_.data())) std::abort();
  }
  ~Tree() { std::filesystem::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const std::string& root() const { return root_; }

  void Write(const std::string& path, const std::string& text) {
    Make(path);
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    Make(path);
    std::filesystem::create_symlink(target, root_ + path);
  }
  void Remove(const std::string& path) { std::filesystem::remove_all(root_ + path); }

  // A listing of data/, over what is there already.
  void Unpack(const std::string& name) {
    std::ifstream listing(std::string(SMI_DATA) + "/" + name);
    ASSERT_TRUE(listing) << name;
    for (std::string line; std::getline(listing, line);) {
      if (line.empty() || line[0] != '/') continue;
      const size_t blank = line.find(' ');
      const std::string path = line.substr(0, blank);
      if (line[blank + 1] == '=') {
        Write(path, nlohmann::json::parse(line.substr(blank + 3)));
      } else {
        Link(path, line.substr(blank + 4));
      }
    }
  }

 private:
  // Makes room: its folder, and nothing at the path itself.
  void Make(const std::string& path) {
    const std::filesystem::path target = root_ + path;
    std::filesystem::create_directories(target.parent_path());
    std::filesystem::remove(target);
  }

  std::string root_;
};

}  // namespace turnstile_smi
