// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// libts104 without a device: encodings, ELF files, addresses.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "embedded_programs.h"
#include "libts104/device.h"
#include "libts104/program.h"
#include "push_buffer.h"
#include "qmd.h"
#include "sha256.h"

namespace libts104 {
namespace {

TEST(PushBufferTest, Headers) {
  // SEC_OP, count, sub-channel, dword address.
  EXPECT_EQ(IncHeader(1, 0x2b4, 1), 0x200120adu);
  EXPECT_EQ(IncHeader(4, 0x400, 4), 0x20048100u);
  EXPECT_EQ(NonIncHeader(2, 0x1b4, 3), 0x6003406du);
  EXPECT_EQ(ImmediateHeader(1, 0x2bc, 3), 0x800320afu);
  EXPECT_EQ(ImmediateHeader(0, 0x20, 0), 0x80000008u);
}

TEST(PushBufferTest, GpEntries) {
  EXPECT_EQ(GpEntry(0x12'3456'789c, 5), 0x0000141234567'89cu);
  EXPECT_EQ(GpEntry(0x1000, (1u << 21) - 1), 0x7ffffc00'00001000u);
}

TEST(QmdTest, FieldsAtTheirBits) {
  LaunchParams params;
  params.program_va = 0x1'2345'6789'abcc;
  params.grid = {7, 5, 3};
  params.cta = {32, 8, 2};
  params.shared_bytes = 0x2000;
  params.local_bytes = 0x400;
  params.barriers = 2;
  params.args_va = 0x12'3456'7800;
  params.args_bytes = 20;
  const Qmd qmd = BuildQmd(params);
  EXPECT_EQ(qmd[18], 0x23u | 32u << 16) << "version 2.3, CTA x";
  EXPECT_EQ(qmd[19], 8u | 2u << 16);
  EXPECT_EQ(qmd[12], 7u);
  EXPECT_EQ(qmd[13], 5u);
  EXPECT_EQ(qmd[14], 3u);
  EXPECT_EQ(qmd[17], 0x2000u);
  EXPECT_EQ(qmd[20] & 0xff, 1u) << "constant buffer 0 only";
  EXPECT_EQ(qmd[29], 0x400u | 2u << 27);
  EXPECT_EQ(qmd[32], 0x34567800u);
  EXPECT_EQ(qmd[33], 0x12u | 2u << 19) << "two units of 16 bytes";
  EXPECT_EQ(qmd[48], 0x6789abccu);
  EXPECT_EQ(qmd[49], 0x12345u);
}

TEST(QmdTest, NoArgumentsNoConstantBuffer) {
  LaunchParams params;
  EXPECT_EQ(BuildQmd(params)[20] & 0xff, 0u);
}

std::vector<std::byte> GoodElf() {
  const auto elf = ts104::FindEmbeddedProgram("sgemm");
  const auto bytes = std::as_bytes(elf);
  return {bytes.begin(), bytes.end()};
}

std::string Refusal(const std::vector<std::byte>& elf) {
  try {
    ParseElf(elf);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

template <typename T, typename Change>
void Patch(std::vector<std::byte>* elf, size_t offset, Change&& change) {
  T value;
  std::memcpy(&value, elf->data() + offset, sizeof(T));
  change(value);
  std::memcpy(elf->data() + offset, &value, sizeof(T));
}

size_t FindSegment(const std::vector<std::byte>& elf, uint32_t type) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const size_t at = header.e_phoff + i * sizeof(segment);
    std::memcpy(&segment, elf.data() + at, sizeof(segment));
    if (segment.p_type == type) return at;
  }
  ADD_FAILURE() << "no segment of type " << type;
  return 0;
}

TEST(ElfTest, EmbeddedProgramLoads) {
  const ProgramImage image = ParseElf(GoodElf());
  EXPECT_EQ(image.shared_bytes, 2u * 32 * 32 * 4);
  EXPECT_EQ(image.barriers, 1u);
  EXPECT_EQ(image.argument_bytes, 48u);
  EXPECT_LT(image.entry, image.bytes.size());
}

TEST(ElfTest, OtherMachineIsNamed) {
  auto elf = GoodElf();
  Patch<Elf64_Ehdr>(&elf, 0, [](Elf64_Ehdr& h) { h.e_machine = EM_X86_64; });
  EXPECT_EQ(Refusal(elf), "ELF file is for machine 62, TS104 runs RISC-V (243)");
}

TEST(ElfTest, GarbageIsRefused) {
  EXPECT_EQ(Refusal({}), "not an ELF file");
  EXPECT_EQ(Refusal(std::vector<std::byte>(100)), "not an ELF file");
  auto elf = GoodElf();
  elf.resize(40);
  EXPECT_EQ(Refusal(elf), "ELF file is cut short: ELF header at offset 0x0 lies beyond the end");
}

TEST(ElfTest, EveryTruncationIsRefusedOrLoads) {
  const auto good = GoodElf();
  for (size_t size = 0; size < good.size(); size += 7) {
    Refusal(std::vector<std::byte>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
  }
}

TEST(ElfTest, ObjectFileAndThirtyTwoBits) {
  auto elf = GoodElf();
  Patch<Elf64_Ehdr>(&elf, 0, [](Elf64_Ehdr& h) { h.e_type = ET_REL; });
  EXPECT_EQ(Refusal(elf), "ELF file has type 1: it was not linked");
  Patch<Elf64_Ehdr>(&elf, 0, [](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; });
  EXPECT_EQ(Refusal(elf), "ELF file is not 64-bit little endian");
}

TEST(ElfTest, HugeSegmentIsRefused) {
  auto elf = GoodElf();
  Patch<Elf64_Phdr>(&elf, FindSegment(elf, PT_LOAD), [](Elf64_Phdr& s) { s.p_memsz = 1ull << 40; });
  EXPECT_EQ(Refusal(elf), "ELF file has a segment of an impossible size");
}

TEST(ElfTest, EntryOutsideIsRefused) {
  auto elf = GoodElf();
  Patch<Elf64_Ehdr>(&elf, 0, [](Elf64_Ehdr& h) { h.e_entry = 0x10000000; });
  EXPECT_EQ(Refusal(elf), "ELF file's entry point 0x10000000 is not in its code");
}

TEST(ElfTest, MissingNoteIsNamed) {
  auto elf = GoodElf();
  Patch<Elf64_Phdr>(&elf, FindSegment(elf, PT_NOTE), [](Elf64_Phdr& s) { s.p_type = PT_NULL; });
  EXPECT_EQ(Refusal(elf), "ELF file has no TS104 note: use TS_PROGRAM of ts104_kernel.h");
}

TEST(ElfTest, NoteBeyondTheMachineIsRefused) {
  auto elf = GoodElf();
  Elf64_Phdr note;
  std::memcpy(&note, elf.data() + FindSegment(elf, PT_NOTE), sizeof(note));
  // header 12 bytes, name 8 bytes, version, shared.
  Patch<uint32_t>(&elf, note.p_offset + 24, [](uint32_t& shared) { shared = 65537; });
  EXPECT_TRUE(Refusal(elf).starts_with("ELF file asks for more than TS104 has: shared 65537,"));
}

TEST(VaAllocatorTest, MergesWhatComesBack) {
  VaAllocator va(0x10000, 0x20000);
  const uint64_t a = va.Alloc(0x4000, 0x1000);
  const uint64_t b = va.Alloc(0x4000, 0x8000);
  EXPECT_EQ(a, 0x10000u);
  EXPECT_EQ(b, 0x18000u);
  EXPECT_EQ(va.Alloc(0x8000, 0x1000), 0u);
  va.Free(a, 0x4000);
  va.Free(b, 0x4000);
  EXPECT_EQ(va.Alloc(0x10000, 0x10000), 0x10000u);
}

TEST(FaultTextTest, NamesAddressAccessAndType) {
  ChannelFault fault;
  fault.kind = ChannelFault::Kind::kMmuFault;
  fault.va = 0xdead0000;
  fault.access = 1;
  fault.type = 2;
  fault.engine = 0x40;
  EXPECT_EQ(Describe(fault),
            "fault at address 0xdead0000, access write, type page not mapped (0x2), GR");
}

TEST(Sha256Test, VectorsOfTheStandard) {
  // SHA-256("abc"), FIPS 180-4; the tag is the first letter.
  const uint8_t bc[] = {'b', 'c'};
  const ts104_run::Hash hash = ts104_run::Sha256('a', bc);
  const ts104_run::Hash expected = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                    0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                    0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                    0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
  EXPECT_EQ(hash, expected);
}

}  // namespace
}  // namespace libts104
