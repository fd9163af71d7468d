// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The transport through ts104.ko. Plain ioctls: nothing of libdrm is linked.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "guest_driver/include/uapi/ts104_drm.h"
#include "libts104/transport.h"
#include "ts104/regs.h"
#include "unique_fd.h"

namespace libts104 {

namespace {

constexpr uint64_t kPage = 4096;
constexpr char kDriverName[] = "ts104";
constexpr char kDriFolder[] = "/dev/dri";
constexpr uint32_t kDoorbellWord = 0x90 / 4;

// 0 or an errno.
template <typename Argument>
int Ioctl(int fd, unsigned long request, Argument* argument) {
  for (;;) {
    if (ioctl(fd, request, argument) == 0) return 0;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
}

template <typename Argument>
void Call(int fd, unsigned long request, Argument* argument, const char* what) {
  const int error = Ioctl(fd, request, argument);
  if (error != 0) throw Error(fmt::format("{}: {}", what, std::strerror(error)));
}

std::string DriverName(int fd) {
  char name[32] = {};
  drm_version version = {};
  version.name = name;
  version.name_len = sizeof(name) - 1;
  return Ioctl(fd, DRM_IOCTL_VERSION, &version) == 0 ? name : "";
}

UniqueFd OpenNode(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw Error(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  const std::string name = DriverName(fd.get());
  if (name != kDriverName) {
    throw Error(fmt::format("{} belongs to driver '{}', not to '{}'", path, name, kDriverName));
  }
  return fd;
}

std::string FindNode() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kDriFolder, error)) {
    const std::string path = entry.path().string();
    if (path.find("renderD") == std::string::npos) continue;
    const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd && DriverName(fd.get()) == kDriverName) return path;
  }
  throw Error(fmt::format("no TS104 in {}: is ts104.ko loaded?", kDriFolder));
}

class DrmTransport : public Transport {
 public:
  explicit DrmTransport(const std::string& path) : fd_(OpenNode(path)) {
    info_.transport = "drm";
    info_.path = path;
    info_.vram_bytes = Param(DRM_TS104_PARAM_VRAM_SIZE);
    info_.sm_count = static_cast<uint32_t>(Param(DRM_TS104_PARAM_SM_COUNT));
    info_.engine_mhz = static_cast<uint32_t>(Param(DRM_TS104_PARAM_ENGINE_MHZ));
    info_.is_vgpu = Param(DRM_TS104_PARAM_IS_VGPU) != 0;
    drm_ts104_vm_create create = {};
    Call(fd_.get(), DRM_IOCTL_TS104_VM_CREATE, &create, "creating an address space");
    vm_id_ = create.vm_id;
  }

  ~DrmTransport() override {
    for (auto& [id, record] : channels_) Unmap(record);
    // Closing the file takes channels off the hardware and frees everything.
  }

  const DeviceInfo& info() const override { return info_; }
  uint64_t VramFree() override { return Param(DRM_TS104_PARAM_VRAM_FREE); }
  uint64_t GpuTimeNs() override { return Param(DRM_TS104_PARAM_GPU_TIME); }

  int64_t Now() override {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  Allocation Allocate(uint64_t size, Placement placement) override {
    drm_ts104_gem_create create = {};
    create.size = size;
    create.placement =
        placement == Placement::kVram ? DRM_TS104_PLACEMENT_VRAM : DRM_TS104_PLACEMENT_SYSMEM;
    const int error = Ioctl(fd_.get(), DRM_IOCTL_TS104_GEM_CREATE, &create);
    if (error == ENOSPC || (error == ENOMEM && placement == Placement::kVram)) {
      throw Error(fmt::format("no room for {} bytes in VRAM: {} of {} bytes are free", size,
                              VramFree(), info_.vram_bytes));
    }
    if (error != 0) {
      throw Error(fmt::format("allocating {} bytes: {}", size, std::strerror(error)));
    }
    Allocation allocation;
    allocation.id = create.handle;
    allocation.size = create.size;
    allocation.placement = placement;
    try {
      drm_ts104_gem_mmap_offset map = {};
      map.handle = create.handle;
      Call(fd_.get(), DRM_IOCTL_TS104_GEM_MMAP_OFFSET, &map, "mapping a buffer");
      allocation.cpu = Map(map.offset, create.size);
    } catch (...) {
      CloseHandle(create.handle);
      throw;
    }
    return allocation;
  }

  void Free(const Allocation& allocation) override {
    munmap(allocation.cpu, allocation.size);
    CloseHandle(static_cast<uint32_t>(allocation.id));
  }

  void Bind(uint64_t va, const Allocation& allocation, bool read_only) override {
    drm_ts104_bind_op op = {};
    op.op = DRM_TS104_BIND_MAP;
    op.flags = read_only ? DRM_TS104_BIND_READ_ONLY : 0;
    op.handle = static_cast<uint32_t>(allocation.id);
    op.va = va;
    op.range = allocation.size;
    BindOp(op, "mapping a buffer for the GPU");
  }

  void Unbind(uint64_t va, uint64_t size) override {
    drm_ts104_bind_op op = {};
    op.op = DRM_TS104_BIND_UNMAP;
    op.va = va;
    op.range = size;
    BindOp(op, "unmapping a buffer");
  }

  ChannelInfo CreateChannel(Engine engine, uint64_t ring_va, uint32_t ring_order,
                            Placement) override {
    drm_ts104_channel_create create = {};
    create.vm_id = vm_id_;
    create.engine = engine == Engine::kCompute ? DRM_TS104_ENGINE_COMPUTE : DRM_TS104_ENGINE_COPY;
    create.ring_va = ring_va;
    create.ring_order = ring_order;
    Call(fd_.get(), DRM_IOCTL_TS104_CHANNEL_CREATE, &create, "creating a channel");
    Record record;
    try {
      record.userd = Map(create.userd_offset, kPage);
      record.doorbell = static_cast<volatile uint32_t*>(Map(create.doorbell_offset, kPage));
    } catch (...) {
      Unmap(record);
      DestroyId(create.channel_id);
      throw;
    }
    ChannelInfo info;
    info.id = create.channel_id;
    info.token = create.token;
    info.userd = static_cast<volatile uint32_t*>(record.userd);
    const std::lock_guard guard(mutex_);
    channels_[info.id] = record;
    // All channels share the page; the first mapping serves for good.
    if (doorbell_.load() == nullptr) doorbell_.store(record.doorbell);
    return info;
  }

  void DestroyChannel(uint64_t id) override {
    Record record;
    {
      const std::lock_guard guard(mutex_);
      auto node = channels_.extract(id);
      if (node.empty()) return;
      record = node.mapped();
      if (doorbell_.load() == record.doorbell) {
        doorbell_.store(channels_.empty() ? nullptr : channels_.begin()->second.doorbell);
      }
    }
    DestroyId(static_cast<uint32_t>(id));
    Unmap(record);
  }

  ChannelFault GetFault(uint64_t id) override {
    drm_ts104_channel_status status = {};
    status.channel_id = static_cast<uint32_t>(id);
    Call(fd_.get(), DRM_IOCTL_TS104_CHANNEL_STATUS, &status, "channel status");
    ChannelFault fault;
    fault.kind = static_cast<ChannelFault::Kind>(status.kind);
    fault.type = status.type;
    fault.access = status.access;
    fault.engine = status.engine;
    fault.count = status.count;
    fault.va = status.va;
    fault.gpu_time_ns = status.gpu_time_ns;
    return fault;
  }

  void ResetChannel(uint64_t id) override {
    drm_ts104_channel_reset reset = {};
    reset.channel_id = static_cast<uint32_t>(id);
    Call(fd_.get(), DRM_IOCTL_TS104_CHANNEL_RESET, &reset, "channel reset");
  }

  void RingDoorbell(const ChannelInfo& channel) override {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    doorbell_.load(std::memory_order_relaxed)[kDoorbellWord] = channel.token;
  }

  bool Wait(const Allocation& allocation, uint64_t offset, uint32_t value, int64_t deadline,
            uint64_t channel) override {
    drm_ts104_wait wait = {};
    wait.handle = static_cast<uint32_t>(allocation.id);
    wait.offset = offset;
    wait.value = value;
    wait.deadline_ns = deadline;
    wait.channel_id = static_cast<uint32_t>(channel);
    const int error = Ioctl(fd_.get(), DRM_IOCTL_TS104_WAIT, &wait);
    if (error == 0) return true;
    if (error == ETIME || error == EIO) return false;
    throw Error(fmt::format("waiting for the GPU: {}", std::strerror(error)));
  }

 private:
  struct Record {
    void* userd = nullptr;
    volatile uint32_t* doorbell = nullptr;
  };

  uint64_t Param(uint32_t param) {
    drm_ts104_get_param get = {};
    get.param = param;
    Call(fd_.get(), DRM_IOCTL_TS104_GET_PARAM, &get, "device parameter");
    return get.value;
  }

  void* Map(uint64_t offset, uint64_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(),
                        static_cast<off_t>(offset));
    if (memory == MAP_FAILED) throw Error(fmt::format("mmap: {}", std::strerror(errno)));
    return memory;
  }

  static void Unmap(Record& record) {
    if (record.userd != nullptr) munmap(record.userd, kPage);
    if (record.doorbell != nullptr) munmap(const_cast<uint32_t*>(record.doorbell), kPage);
  }

  void BindOp(const drm_ts104_bind_op& op, const char* what) {
    drm_ts104_vm_bind bind = {};
    bind.vm_id = vm_id_;
    bind.op_count = 1;
    bind.ops = reinterpret_cast<uintptr_t>(&op);
    Call(fd_.get(), DRM_IOCTL_TS104_VM_BIND, &bind, what);
  }

  void CloseHandle(uint32_t handle) {
    drm_gem_close close = {};
    close.handle = handle;
    (void)Ioctl(fd_.get(), DRM_IOCTL_GEM_CLOSE, &close);
  }

  void DestroyId(uint32_t id) {
    drm_ts104_channel_destroy destroy = {};
    destroy.channel_id = id;
    (void)Ioctl(fd_.get(), DRM_IOCTL_TS104_CHANNEL_DESTROY, &destroy);
  }

  UniqueFd fd_;
  DeviceInfo info_;
  uint32_t vm_id_ = 0;
  std::mutex mutex_;
  std::map<uint64_t, Record> channels_;
  std::atomic<volatile uint32_t*> doorbell_{nullptr};
};

}  // namespace

std::unique_ptr<Transport> OpenDrm(const std::string& path) {
  return std::make_unique<DrmTransport>(path.empty() ? FindNode() : path);
}

}  // namespace libts104
