/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * User interface of ts104.ko, the DRM render driver of TS104 (driver name "ts104").
 *
 * A client makes an address space (VM), buffers (GEM), binds them, and makes channels. Work is then
 * submitted without system calls: write a GP entry into the ring, GP_PUT into the USERD page, the
 * channel's token into the doorbell page. WAIT sleeps until a semaphore in a buffer has a value.
 *
 * Rules: all structures have fixed-width members and no holes; members named pad, flags without a
 * meaning and unknown flag bits must be 0 (-EINVAL). Handles are per open file. Counts are capped
 * (-E2BIG). Pointers to user memory are __u64.
 */
#ifndef _UAPI_TS104_DRM_H_
#define _UAPI_TS104_DRM_H_

#ifdef __KERNEL__
#include <drm/drm.h>
#else
#include <drm.h> /* pkg-config libdrm knows where */
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#define DRM_TS104_GET_PARAM 0x00
#define DRM_TS104_GEM_CREATE 0x01
#define DRM_TS104_GEM_MMAP_OFFSET 0x02
#define DRM_TS104_VM_CREATE 0x03
#define DRM_TS104_VM_DESTROY 0x04
#define DRM_TS104_VM_BIND 0x05
#define DRM_TS104_CHANNEL_CREATE 0x06
#define DRM_TS104_CHANNEL_DESTROY 0x07
#define DRM_TS104_WAIT 0x08
#define DRM_TS104_CHANNEL_STATUS 0x09
#define DRM_TS104_CHANNEL_RESET 0x0a

/* --- GET_PARAM: -EINVAL for an unknown param. --- */
enum drm_ts104_param {
	DRM_TS104_PARAM_UAPI_VERSION = 0, /* 1 */
	DRM_TS104_PARAM_CHIP_ID = 1,      /* 0x164 */
	DRM_TS104_PARAM_IS_VGPU = 2,      /* 0 bare or passed through, 1 vGPU */
	DRM_TS104_PARAM_VRAM_SIZE = 3,    /* bytes */
	DRM_TS104_PARAM_VRAM_FREE = 4,    /* bytes, now */
	DRM_TS104_PARAM_SM_COUNT = 5,
	DRM_TS104_PARAM_ENGINE_MHZ = 6,
	DRM_TS104_PARAM_GPU_TIME = 7,     /* ns since the Unix epoch, GPU clock */
	DRM_TS104_PARAM_MAX_CHANNELS = 8,
};

struct drm_ts104_get_param {
	__u32 param; /* in: enum drm_ts104_param */
	__u32 pad;
	__u64 value; /* out */
};

/* --- GEM --- */
enum drm_ts104_placement {
	DRM_TS104_PLACEMENT_VRAM = 0,
	DRM_TS104_PLACEMENT_SYSMEM = 1,
};

/* Zeroed memory. -ENOSPC: no VRAM of that size left. -EINVAL: size 0. */
struct drm_ts104_gem_create {
	__u64 size;      /* in: bytes; out: rounded up to 4096 */
	__u32 placement; /* in: enum drm_ts104_placement */
	__u32 flags;     /* in: 0 */
	__u32 handle;    /* out */
	__u32 pad;
};

struct drm_ts104_gem_mmap_offset {
	__u32 handle; /* in */
	__u32 flags;  /* in: 0 */
	__u64 offset; /* out: for mmap on the DRM file */
};

/* --- Address spaces --- */
struct drm_ts104_vm_create {
	__u32 flags; /* in: 0 */
	__u32 vm_id; /* out: 1 .. */
};

/* -EBUSY while a channel uses it. Its bindings go with it. */
struct drm_ts104_vm_destroy {
	__u32 vm_id;
	__u32 pad;
};

enum drm_ts104_bind_op_kind {
	DRM_TS104_BIND_MAP = 0,   /* replaces what is mapped in the range */
	DRM_TS104_BIND_UNMAP = 1, /* handle 0, bo_offset 0; splits bindings */
};

#define DRM_TS104_BIND_READ_ONLY (1u << 0)
#define DRM_TS104_BIND_NO_ATOMICS (1u << 1)

struct drm_ts104_bind_op {
	__u32 op;        /* enum drm_ts104_bind_op_kind */
	__u32 flags;     /* DRM_TS104_BIND_* */
	__u32 handle;    /* GEM handle (MAP) */
	__u32 pad;
	__u64 bo_offset; /* bytes, multiple of 4096 */
	__u64 va;        /* multiple of 4096, below 2^49 */
	__u64 range;     /* bytes, multiple of 4096, > 0 */
};

#define DRM_TS104_MAX_BIND_OPS 1024

/*
 * Carries out the ops in order and returns when the GPU sees the result. On an error the ops before
 * the failing one stay; `completed` says how many.
 */
struct drm_ts104_vm_bind {
	__u32 vm_id;
	__u32 op_count;  /* 1 .. DRM_TS104_MAX_BIND_OPS */
	__u64 ops;       /* struct drm_ts104_bind_op[op_count] */
	__u32 flags;     /* 0 */
	__u32 completed; /* out */
};

/* --- Channels --- */
enum drm_ts104_engine {
	DRM_TS104_ENGINE_COMPUTE = 0, /* runlist 0: compute (sub-channel 1) and GRCE (4) */
	DRM_TS104_ENGINE_COPY = 1,    /* runlists 1 and 2: the driver picks; copy on sub-channel 4 */
};

/*
 * The ring: 2^ring_order GP entries of 8 bytes at ring_va, which must be bound in the VM and lie
 * below 2^40. USERD (GP_PUT at 0x8c, GP_GET at 0x88) is the first 512 bytes of the page at
 * userd_offset; the doorbell is the 32-bit word at byte 0x90 of the page at doorbell_offset. Both
 * pages are mapped with mmap on the DRM file, PROT_READ | PROT_WRITE, MAP_SHARED, 4096 bytes.
 * -ENOSPC: no channel or no VRAM left.
 */
struct drm_ts104_channel_create {
	__u32 vm_id;           /* in */
	__u32 engine;          /* in: enum drm_ts104_engine */
	__u64 ring_va;         /* in: multiple of 8 */
	__u32 ring_order;      /* in: 1 .. 16 */
	__u32 flags;           /* in: 0 */
	__u32 channel_id;      /* out: 1 .. */
	__u32 token;           /* out: work-submit token */
	__u64 userd_offset;    /* out: for mmap */
	__u64 doorbell_offset; /* out: for mmap */
};

/* Takes the channel off the hardware; work that has not finished is lost. */
struct drm_ts104_channel_destroy {
	__u32 channel_id;
	__u32 pad;
};

/*
 * Sleeps until the word at `offset` of buffer `handle` has reached `value` (circular compare:
 * (signed)(word - value) >= 0), the channel has an error (-EIO), or absolute CLOCK_MONOTONIC time
 * `deadline_ns` has come (-ETIME). channel_id 0: no channel is watched. The work must end with a
 * NON_STALL_INTERRUPT method after the release, else nothing wakes the sleeper before the deadline.
 */
#define DRM_TS104_WAIT_64BIT (1u << 0) /* word and value are 64 bits, offset a multiple of 8 */

struct drm_ts104_wait {
	__u32 handle;
	__u32 flags;       /* DRM_TS104_WAIT_* */
	__u64 offset;      /* bytes, multiple of 4 */
	__u64 value;
	__s64 deadline_ns;
	__u32 channel_id;
	__u32 pad;
};

enum drm_ts104_error_kind {
	DRM_TS104_ERROR_NONE = 0,
	DRM_TS104_ERROR_MMU_FAULT = 1,
	DRM_TS104_ERROR_ENGINE = 2, /* program or engine error; va is the PC, the method or the QMD */
	DRM_TS104_ERROR_PBDMA = 3,  /* bad push buffer: type = PBDMA INTR_0, access = INTR_1 */
	DRM_TS104_ERROR_DEVICE_LOST = 4,
};

/* type, access, engine: NV_MMU_FAULT_PACKET_* of the register map. The first error is kept. */
struct drm_ts104_channel_status {
	__u32 channel_id; /* in */
	__u32 kind;       /* out: enum drm_ts104_error_kind */
	__u32 type;       /* out */
	__u32 access;     /* out */
	__u32 engine;     /* out */
	__u32 count;      /* out: errors since creation or reset */
	__u64 va;         /* out */
	__u64 gpu_time_ns; /* out: of the first error */
};

/*
 * Brings the channel back to the state after creation: pending work dropped, USERD zeroed, errors
 * forgotten, fresh context. The client starts again at ring index 0.
 */
struct drm_ts104_channel_reset {
	__u32 channel_id;
	__u32 flags; /* 0 */
};

#define DRM_IOCTL_TS104_GET_PARAM \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_GET_PARAM, struct drm_ts104_get_param)
#define DRM_IOCTL_TS104_GEM_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_GEM_CREATE, struct drm_ts104_gem_create)
#define DRM_IOCTL_TS104_GEM_MMAP_OFFSET \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_GEM_MMAP_OFFSET, struct drm_ts104_gem_mmap_offset)
#define DRM_IOCTL_TS104_VM_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_VM_CREATE, struct drm_ts104_vm_create)
#define DRM_IOCTL_TS104_VM_DESTROY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_VM_DESTROY, struct drm_ts104_vm_destroy)
#define DRM_IOCTL_TS104_VM_BIND \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_VM_BIND, struct drm_ts104_vm_bind)
#define DRM_IOCTL_TS104_CHANNEL_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_CHANNEL_CREATE, struct drm_ts104_channel_create)
#define DRM_IOCTL_TS104_CHANNEL_DESTROY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_CHANNEL_DESTROY, struct drm_ts104_channel_destroy)
#define DRM_IOCTL_TS104_WAIT \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_WAIT, struct drm_ts104_wait)
#define DRM_IOCTL_TS104_CHANNEL_STATUS \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_CHANNEL_STATUS, struct drm_ts104_channel_status)
#define DRM_IOCTL_TS104_CHANNEL_RESET \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_TS104_CHANNEL_RESET, struct drm_ts104_channel_reset)

#if defined(__cplusplus)
}
#endif

#endif /* _UAPI_TS104_DRM_H_ */
