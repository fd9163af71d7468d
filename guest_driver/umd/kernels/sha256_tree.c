/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One level of an RFC 6962 Merkle tree; one thread makes one hash (FIPS 180-4). */
#include "ts104_kernel.h"
#include "ts104_programs.h"

#define HASH_BYTES 32

TS_PROGRAM(struct ts104_sha256_tree_args)

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* A message of one tag byte and `bytes` bytes, padded as the standard says. */
struct message {
  uint8_t tag;
  const uint8_t *data;
  uint64_t bytes;
};

static uint32_t rotate(uint32_t value, unsigned bits)
{
  return value >> bits | value << (32 - bits);
}

static uint32_t padded_byte(const struct message *message, uint64_t position, uint64_t padded)
{
  const uint64_t length = message->bytes + 1;

  if (position == 0)
    return message->tag;
  if (position < length)
    return message->data[position - 1];
  if (position == length)
    return 0x80;
  if (position >= padded - 8)
    return (uint8_t)(length * 8 >> (8 * (padded - 1 - position)));
  return 0;
}

static void compress(uint32_t state[8], uint32_t words[16])
{
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

  for (uint32_t i = 0; i < 64; ++i) {
    if (i >= 16) {
      const uint32_t w15 = words[(i + 1) & 15];
      const uint32_t w2 = words[(i + 14) & 15];
      const uint32_t s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ w15 >> 3;
      const uint32_t s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ w2 >> 10;

      words[i & 15] += s0 + words[(i + 9) & 15] + s1;
    }
    const uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                        round_constants[i] + words[i & 15];
    const uint32_t t2 =
        (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));

    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

static void hash(const struct message *message, uint8_t out[HASH_BYTES])
{
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t padded = (message->bytes + 1 + 9 + 63) / 64 * 64;

  for (uint64_t block = 0; block < padded; block += 64) {
    uint32_t words[16];

    for (uint32_t i = 0; i < 16; ++i) {
      uint32_t word = 0;

      for (uint32_t byte = 0; byte < 4; ++byte)
        word = word << 8 | padded_byte(message, block + 4 * i + byte, padded);
      words[i] = word;
    }
    compress(state, words);
  }
  for (uint32_t i = 0; i < HASH_BYTES; ++i)
    out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

static void hash_leaf(const struct ts104_sha256_tree_args *args, uint64_t index)
{
  const uint64_t start = index * args->leaf_bytes;
  const uint64_t left = args->count - start;
  const struct message message = {
      .tag = 0,
      .data = (const uint8_t *)args->in + start,
      .bytes = left < args->leaf_bytes ? left : args->leaf_bytes,
  };

  hash(&message, (uint8_t *)args->out + index * HASH_BYTES);
}

static void hash_node(const struct ts104_sha256_tree_args *args, uint64_t index)
{
  const struct message message = {
      .tag = 1,
      .data = (const uint8_t *)args->in + index * 2 * HASH_BYTES,
      .bytes = 2 * HASH_BYTES,
  };
  uint8_t *out = (uint8_t *)args->out + index * HASH_BYTES;

  if (2 * index + 1 < args->count)
    hash(&message, out);
  else
    memcpy(out, message.data, HASH_BYTES);
}

TS_MAIN(const struct ts104_sha256_tree_args *args)
{
  const int leaves = args->mode == TS104_SHA256_MODE_LEAVES;
  const uint64_t per_hash = leaves ? args->leaf_bytes : 2;
  const uint64_t hashes = (args->count + per_hash - 1) / per_hash;
  const uint64_t step = ts_grid_threads_x();

  for (uint64_t i = ts_global_x(); i < hashes; i += step) {
    if (leaves)
      hash_leaf(args, i);
    else
      hash_node(args, i);
  }
}
