// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// guest_abi.h on top of the classes. Arguments that user space may have chosen are checked here.
#include "guest_driver/core/guest_abi.h"

#include <span>

#include "base/errno_map.h"
#include "base/units.h"
#include "guest_driver/core/address_space.h"
#include "guest_driver/core/device.h"

// tsg_device and tsg_vm are names only: the pointers are guest::Device and guest::AddressSpace.
struct tsg_channel {
  guest::Device* device;
  guest::Channel* channel;
};

namespace {

using base::Status;
using base::StatusToErrno;

constexpr int kNoDevice = -19;  // ENODEV
constexpr uint32_t kMapFlags =
    TSG_MAP_READ_ONLY | TSG_MAP_NO_ATOMICS | TSG_MAP_PRIVILEGED | TSG_MAP_SPARSE;

guest::Device* In(tsg_device* device) { return reinterpret_cast<guest::Device*>(device); }
const guest::Device* In(const tsg_device* device) {
  return reinterpret_cast<const guest::Device*>(device);
}
guest::AddressSpace* In(tsg_vm* vm) { return reinterpret_cast<guest::AddressSpace*>(vm); }
const guest::AddressSpace* In(const tsg_vm* vm) {
  return reinterpret_cast<const guest::AddressSpace*>(vm);
}

bool Valid(const guest::Device& device, const tsg_channel_params& params) {
  if (params.flags != 0 || params.reserved != 0) return false;
  if (params.runlist >= TSG_NUM_RUNLISTS ||
      (device.topology().runlist_mask >> params.runlist & 1) == 0) {
    return false;
  }
  if (params.ring_order < 1 || params.ring_order > 16 || params.ring_va % 8 != 0 ||
      !base::RangeFits(params.ring_va, uint64_t{8} << params.ring_order, TSG_RING_VA_LIMIT)) {
    return false;
  }
  if (params.userd_address % 512 != 0) return false;
  switch (params.userd_aperture) {
    case TSG_APERTURE_VRAM:
      return base::RangeFits(params.userd_address, 512, device.info().vram_bytes);
    case TSG_APERTURE_SYSMEM:
      // RAMFC holds 40 address bits of USERD.
      return base::RangeFits(params.userd_address, 512, uint64_t{1} << 40);
    default: return false;
  }
}

}  // namespace

extern "C" {

int tsg_device_create(const tsg_os_ops* ops, void* os, uint32_t flags, tsg_device** out) {
  if ((flags & ~TSG_CREATE_SYSMEM_TABLES) != 0) return StatusToErrno(Status::kInvalidArgument);
  base::Result<base::UniquePtr<guest::Device>> device = guest::Device::Create(*ops, os, flags);
  if (!device.ok()) {
    return device.status() == Status::kNotFound ? kNoDevice : StatusToErrno(device.status());
  }
  *out = reinterpret_cast<tsg_device*>((*device).release());
  return 0;
}

void tsg_device_destroy(tsg_device* device) { delete In(device); }

void tsg_device_get_info(const tsg_device* device, tsg_device_info* out) {
  *out = In(device)->info();
}

void tsg_device_mark_lost(tsg_device* device) { In(device)->os().MarkLost(); }

int tsg_device_quiesce(tsg_device* device) {
  In(device)->interrupts().Disable();
  return StatusToErrno(In(device)->fifo().Shutdown());
}

uint64_t tsg_device_gpu_time(tsg_device* device) { return In(device)->GpuTime(); }

int tsg_vram_alloc(tsg_device* device, uint64_t size, uint64_t align, uint64_t* offset) {
  const base::Result<uint64_t> range = In(device)->vram().Alloc(size, align);
  if (!range.ok()) return StatusToErrno(range.status());
  *offset = *range;
  return 0;
}

void tsg_vram_free(tsg_device* device, uint64_t offset, uint64_t size) {
  if (In(device)->vram().Free(offset, size) != Status::kOk) {
    In(device)->os().Log(TSG_LOG_ERROR,
                         guest::LogLine().Text("wrong free of VRAM at ").Hex(offset));
  }
}

uint64_t tsg_vram_available(const tsg_device* device) { return In(device)->vram().Available(); }

int tsg_vm_create(tsg_device* device, tsg_vm** out) {
  auto vm = base::MakeUnique<guest::AddressSpace>(*In(device));
  if (!vm.ok()) return StatusToErrno(vm.status());
  const Status status = (*vm)->Init();
  if (status != Status::kOk) return StatusToErrno(status);
  *out = reinterpret_cast<tsg_vm*>((*vm).release());
  return 0;
}

void tsg_vm_destroy(tsg_vm* vm) { delete In(vm); }

int tsg_vm_map(tsg_vm* vm, uint64_t va, const tsg_extent* extents, uint32_t count, uint32_t flags) {
  if ((flags & ~kMapFlags) != 0) return StatusToErrno(Status::kInvalidArgument);
  return StatusToErrno(In(vm)->Map(va, std::span(extents, count), flags));
}

int tsg_vm_unmap(tsg_vm* vm, uint64_t va, uint64_t size) {
  return StatusToErrno(In(vm)->Unmap(va, size));
}

int tsg_vm_flush(tsg_vm* vm) { return StatusToErrno(In(vm)->Flush()); }

uint64_t tsg_vm_table_bytes(const tsg_vm* vm) { return In(vm)->TableBytes(); }

int tsg_vm_translate(tsg_vm* vm, uint64_t va, tsg_extent* out, uint32_t* flags) {
  const base::Result<tsg_extent> extent = In(vm)->Translate(va, flags);
  if (!extent.ok()) return StatusToErrno(extent.status());
  *out = *extent;
  return 0;
}

int tsg_channel_create(tsg_vm* vm, const tsg_channel_params* params, tsg_channel** out) {
  guest::Device& device = In(vm)->device();
  if (!Valid(device, *params)) return StatusToErrno(Status::kInvalidArgument);
  auto handle = base::MakeUnique<tsg_channel>();
  if (!handle.ok()) return StatusToErrno(handle.status());
  const guest::TablePage& root = In(vm)->root();
  const base::Result<guest::Channel*> channel =
      device.fifo().Create(*params, root.aperture, root.address);
  if (!channel.ok()) return StatusToErrno(channel.status());
  (*handle)->device = &device;
  (*handle)->channel = *channel;
  *out = (*handle).release();
  return 0;
}

void tsg_channel_destroy(tsg_channel* channel) {
  if (channel == nullptr) return;
  channel->device->fifo().Destroy(channel->channel);
  delete channel;
}

uint32_t tsg_channel_chid(const tsg_channel* channel) { return channel->channel->on_list.chid; }
uint32_t tsg_channel_token(const tsg_channel* channel) { return channel->channel->token; }

int tsg_channel_get_status(tsg_channel* channel, tsg_channel_status* out) {
  return StatusToErrno(channel->device->fifo().GetStatus(*channel->channel, out));
}

int tsg_channel_stop(tsg_channel* channel) {
  return StatusToErrno(channel->device->fifo().Stop(*channel->channel));
}

int tsg_channel_restart(tsg_channel* channel) {
  return StatusToErrno(channel->device->fifo().Restart(*channel->channel));
}

uint32_t tsg_irq(tsg_device* device, int vector) { return In(device)->interrupts().Handle(vector); }

uint32_t tsg_service_errors(tsg_device* device, tsg_error* records, uint32_t max) {
  const uint32_t count = In(device)->fifo().ServiceErrors(std::span(records, max));
  In(device)->interrupts().UnmaskPfifo();
  return count;
}

const char* tsg_fault_type_name(uint32_t type) {
  static constexpr const char* kNames[] = {"page directory not present",
                                           "page directory of a wrong size",
                                           "page not mapped",
                                           "address beyond 49 bits",
                                           "unusable instance block",
                                           "privileged page",
                                           "read-only page",
                                           "write-only page",
                                           "pitch mask violation",
                                           "work creation",
                                           "unsupported aperture",
                                           "compression failure",
                                           "unsupported page kind",
                                           "address beyond memory",
                                           "poisoned memory",
                                           "page without atomics",
                                           "illegal instruction",
                                           "trap",
                                           "misaligned access",
                                           "local memory out of range",
                                           "shared memory out of range",
                                           "bad launch",
                                           "illegal method",
                                           "copy engine launch error",
                                           "bad context",
                                           "context switch timeout"};
  return type < sizeof(kNames) / sizeof(kNames[0]) ? kNames[type] : "unknown fault";
}

const char* tsg_access_type_name(uint32_t access) {
  static constexpr const char* kNames[] = {"read", "write", "atomic", "prefetch", "weak atomic"};
  return access < sizeof(kNames) / sizeof(kNames[0]) ? kNames[access] : "physical access";
}

}  // extern "C"
