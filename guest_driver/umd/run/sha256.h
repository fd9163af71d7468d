// SPDX-License-Identifier: GPL-2.0-only OR MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ts104_run {

using Hash = std::array<uint8_t, 32>;

// SHA-256 (FIPS 180-4) of `tag` followed by `data`.
Hash Sha256(uint8_t tag, std::span<const uint8_t> data);

// Root of the Merkle tree of RFC 6962 over leaves of `leaf_bytes`; all zeros for no data.
Hash MerkleRoot(std::span<const uint8_t> data, size_t leaf_bytes);

}  // namespace ts104_run
