// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Written apart from the GPU program of the same purpose, which it checks.
#include "sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace ts104_run {

namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

class Digest {
 public:
  void Update(std::span<const uint8_t> data) {
    total_ += data.size();
    while (!data.empty()) {
      const size_t take = std::min(data.size(), block_.size() - filled_);
      std::memcpy(block_.data() + filled_, data.data(), take);
      filled_ += take;
      data = data.subspan(take);
      if (filled_ == block_.size()) Block();
    }
  }

  Hash Finish() {
    const uint64_t bits = total_ * 8;
    const uint8_t one = 0x80;
    const uint8_t zero = 0;
    Update({&one, 1});
    while (filled_ != 56) Update({&zero, 1});
    std::array<uint8_t, 8> length;
    for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    Update(length);
    Hash hash;
    for (size_t i = 0; i < hash.size(); ++i) {
      hash[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    }
    return hash;
  }

 private:
  void Block() {
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; ++i) {
      w[i] = uint32_t{block_[4 * i]} << 24 | uint32_t{block_[4 * i + 1]} << 16 |
             uint32_t{block_[4 * i + 2]} << 8 | block_[4 * i + 3];
    }
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15];
      const uint32_t b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::array<uint32_t, 8> s = state_;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t e1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
      const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
      const uint32_t t1 = s[7] + e1 + choice + kRound[i] + w[i];
      const uint32_t e0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
      const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
      std::rotate(s.begin(), s.end() - 1, s.end());
      s[4] += t1;
      s[0] = t1 + e0 + majority;
    }
    for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
    filled_ = 0;
  }

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_ = {};
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

Hash Sha256(uint8_t tag, std::span<const uint8_t> data) {
  Digest digest;
  digest.Update({&tag, 1});
  digest.Update(data);
  return digest.Finish();
}

Hash MerkleRoot(std::span<const uint8_t> data, size_t leaf_bytes) {
  std::vector<Hash> level;
  for (size_t at = 0; at < data.size(); at += leaf_bytes) {
    level.push_back(Sha256(0, data.subspan(at, std::min(leaf_bytes, data.size() - at))));
  }
  if (level.empty()) return {};
  while (level.size() > 1) {
    std::vector<Hash> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      std::array<uint8_t, 64> pair;
      std::memcpy(pair.data(), level[i].data(), 32);
      std::memcpy(pair.data() + 32, level[i + 1].data(), 32);
      next.push_back(Sha256(1, pair));
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  return level.front();
}

}  // namespace ts104_run
