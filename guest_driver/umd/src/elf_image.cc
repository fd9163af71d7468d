// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <elf.h>
#include <fmt/format.h>

#include <cstring>

#include "libts104/program.h"

namespace libts104 {

namespace {

constexpr uint64_t kMaxImageBytes = 64u << 20;
constexpr uint32_t kNoteType = 1;
constexpr uint32_t kNoteVersion = 1;
constexpr uint32_t kMaxSharedBytes = 64u << 10;
constexpr uint32_t kMaxLocalBytes = 64u << 10;
constexpr uint32_t kMaxBarriers = 16;
constexpr uint32_t kMaxArgumentBytes = 64u << 10;

// Bounds-checked reading of structures at offsets that the file chose.
class File {
 public:
  explicit File(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> Range(uint64_t offset, uint64_t size, const char* what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      throw Error(fmt::format("ELF file is cut short: {} at offset {:#x} lies beyond the end", what,
                              offset));
    }
    return bytes_.subspan(offset, size);
  }
  template <typename T>
  T Read(uint64_t offset, const char* what) const {
    T value;
    std::memcpy(&value, Range(offset, sizeof(T), what).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

Elf64_Ehdr ReadHeader(const File& file, uint64_t size) {
  if (size < SELFMAG || std::memcmp(file.Range(0, SELFMAG, "magic").data(), ELFMAG, SELFMAG) != 0) {
    throw Error("not an ELF file");
  }
  const auto header = file.Read<Elf64_Ehdr>(0, "ELF header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    throw Error("ELF file is not 64-bit little endian");
  }
  if (header.e_machine != EM_RISCV) {
    throw Error(fmt::format("ELF file is for machine {}, TS104 runs RISC-V ({})", header.e_machine,
                            EM_RISCV));
  }
  if (header.e_type != ET_DYN && header.e_type != ET_EXEC) {
    throw Error(fmt::format("ELF file has type {}: it was not linked", header.e_type));
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) {
    throw Error("ELF file has no usable program headers");
  }
  return header;
}

// PT_DYNAMIC of a static PIE is harmless as long as nothing must be relocated.
void RefuseRelocations(const File& file, const Elf64_Phdr& dynamic) {
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = file.Read<Elf64_Dyn>(dynamic.p_offset + at, "dynamic section");
    if (entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_NEEDED) throw Error("ELF file needs shared libraries");
    if ((entry.d_tag == DT_RELASZ || entry.d_tag == DT_RELSZ || entry.d_tag == DT_PLTRELSZ) &&
        entry.d_un.d_val != 0) {
      throw Error("ELF file needs relocations: link it position independent and without GOT data");
    }
  }
}

struct Note {
  uint32_t version, shared_bytes, local_bytes, barriers, argument_bytes, reserved;
};

bool ReadNote(const File& file, const Elf64_Phdr& segment, ProgramImage* image) {
  uint64_t at = 0;
  while (at + sizeof(Elf64_Nhdr) <= segment.p_filesz) {
    const auto header = file.Read<Elf64_Nhdr>(segment.p_offset + at, "note");
    const uint64_t name_at = at + sizeof(header);
    const uint64_t data_at = name_at + (uint64_t{header.n_namesz} + 3) / 4 * 4;
    const uint64_t next = data_at + (uint64_t{header.n_descsz} + 3) / 4 * 4;
    const auto name = file.Range(segment.p_offset + name_at, header.n_namesz, "note name");
    if (header.n_type == kNoteType && name.size() == 6 &&
        std::memcmp(name.data(), "TS104", 6) == 0) {
      if (header.n_descsz != sizeof(Note)) throw Error("ELF file has a TS104 note of wrong size");
      const auto note = file.Read<Note>(segment.p_offset + data_at, "TS104 note");
      if (note.version != kNoteVersion) {
        throw Error(fmt::format("ELF file has a TS104 note of version {}, {} is known",
                                note.version, kNoteVersion));
      }
      if (note.shared_bytes > kMaxSharedBytes || note.local_bytes > kMaxLocalBytes ||
          note.barriers > kMaxBarriers || note.argument_bytes > kMaxArgumentBytes) {
        throw Error(
            fmt::format("ELF file asks for more than TS104 has: shared {}, local {}, "
                        "barriers {}, arguments {}",
                        note.shared_bytes, note.local_bytes, note.barriers, note.argument_bytes));
      }
      image->shared_bytes = note.shared_bytes;
      image->local_bytes = note.local_bytes;
      image->barriers = note.barriers;
      image->argument_bytes = note.argument_bytes;
      return true;
    }
    at = next;
  }
  return false;
}

// Size of the image and the lowest address of its segments.
std::pair<uint64_t, uint64_t> Extent(std::span<const Elf64_Phdr> segments) {
  uint64_t low = UINT64_MAX;
  uint64_t high = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || segment.p_memsz == 0) continue;
    if (segment.p_filesz > segment.p_memsz || segment.p_memsz > kMaxImageBytes ||
        segment.p_vaddr > UINT64_MAX - segment.p_memsz) {
      throw Error("ELF file has a segment of an impossible size");
    }
    low = std::min<uint64_t>(low, segment.p_vaddr);
    high = std::max<uint64_t>(high, segment.p_vaddr + segment.p_memsz);
  }
  if (low >= high) throw Error("ELF file has nothing to load");
  // Addresses inside a page must survive loading; the image starts at a page.
  low &= ~uint64_t{4095};
  if (high - low > kMaxImageBytes) {
    throw Error(fmt::format("ELF file covers {} bytes of memory, the limit is {}", high - low,
                            kMaxImageBytes));
  }
  return {low, high - low};
}

}  // namespace

ProgramImage ParseElf(std::span<const std::byte> bytes) {
  const File file(bytes);
  const Elf64_Ehdr header = ReadHeader(file, bytes.size());
  std::vector<Elf64_Phdr> segments;
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    segments.push_back(
        file.Read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr), "program header"));
  }
  const auto [low, size] = Extent(segments);
  ProgramImage image;
  image.bytes.resize(size);
  bool has_note = false;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_DYNAMIC) RefuseRelocations(file, segment);
    if (segment.p_type == PT_NOTE) has_note = ReadNote(file, segment, &image) || has_note;
    if (segment.p_type != PT_LOAD || segment.p_filesz == 0) continue;
    const auto from = file.Range(segment.p_offset, segment.p_filesz, "segment");
    std::memcpy(image.bytes.data() + (segment.p_vaddr - low), from.data(), from.size());
  }
  if (!has_note) throw Error("ELF file has no TS104 note: use TS_PROGRAM of ts104_kernel.h");
  if (header.e_entry < low || header.e_entry - low >= size || header.e_entry % 4 != 0) {
    throw Error(fmt::format("ELF file's entry point {:#x} is not in its code", header.e_entry));
  }
  image.entry = header.e_entry - low;
  return image;
}

}  // namespace libts104
