/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints, events/turnstile/; docs/sysfs-abi.md tells what each means. `gpu` is the PCI address,
 * `vgpu` the UUID of the mediated device, "-" for none. Names and fields stay; new ones are added.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM turnstile

#if !defined(TURNSTILE_TRACE_H_) || defined(TRACE_HEADER_MULTI_READ)
#define TURNSTILE_TRACE_H_

#include <linux/tracepoint.h>

#include "compat.h"
#include "core/host_abi.h"

TRACE_EVENT(turnstile_csr_access,
	TP_PROTO(const char *vgpu, u32 region, u64 offset, u32 size, u64 value, bool write),
	TP_ARGS(vgpu, region, offset, size, value, write),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u32, region)
		__field(u32, size)
		__field(u64, offset)
		__field(u64, value)
		__field(bool, write)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->region = region;
		__entry->size = size;
		__entry->offset = offset;
		__entry->value = value;
		__entry->write = write;
	),
	TP_printk("vgpu=%s access=%s region=%u offset=0x%llx size=%u value=0x%llx",
		  __get_str(vgpu), __entry->write ? "write" : "read", __entry->region,
		  __entry->offset, __entry->size, __entry->value)
);

TRACE_EVENT(turnstile_runlist_submit,
	TP_PROTO(const char *vgpu, u32 runlist, u32 value),
	TP_ARGS(vgpu, runlist, value),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u32, runlist)
		__field(u32, value)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->runlist = runlist;
		__entry->value = value;
	),
	TP_printk("vgpu=%s runlist=%u value=0x%x", __get_str(vgpu), __entry->runlist,
		  __entry->value)
);

TRACE_EVENT(turnstile_irq_inject,
	TP_PROTO(const char *vgpu, u32 kind, u32 vector, bool heard),
	TP_ARGS(vgpu, kind, vector, heard),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u32, kind)
		__field(u32, vector)
		__field(bool, heard)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->kind = kind;
		__entry->vector = vector;
		__entry->heard = heard;
	),
	TP_printk("vgpu=%s kind=%s vector=%u heard=%u", __get_str(vgpu),
		  __print_symbolic(__entry->kind, { 1, "INTx" }, { 2, "MSI" }, { 3, "MSI-X" }),
		  __entry->vector, __entry->heard)
);

DECLARE_EVENT_CLASS(turnstile_pages,
	TP_PROTO(const char *vgpu, u64 gpa, u32 asked, u32 done),
	TP_ARGS(vgpu, gpa, asked, done),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u64, gpa)
		__field(u32, asked)
		__field(u32, done)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->gpa = gpa;
		__entry->asked = asked;
		__entry->done = done;
	),
	TP_printk("vgpu=%s gpa=0x%llx asked=%u done=%u", __get_str(vgpu), __entry->gpa,
		  __entry->asked, __entry->done)
);

DEFINE_EVENT(turnstile_pages, turnstile_pin,
	TP_PROTO(const char *vgpu, u64 gpa, u32 asked, u32 done),
	TP_ARGS(vgpu, gpa, asked, done)
);

DEFINE_EVENT(turnstile_pages, turnstile_unpin,
	TP_PROTO(const char *vgpu, u64 gpa, u32 asked, u32 done),
	TP_ARGS(vgpu, gpa, asked, done)
);

/* Life of a vGPU; `type` is the index in the table of types, as core_abi.h counts. */
TRACE_EVENT(turnstile_vgpu_create,
	TP_PROTO(const char *vgpu, u32 type, u32 function, int error),
	TP_ARGS(vgpu, type, function, error),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u32, type)
		__field(u32, function)
		__field(int, error)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->type = type;
		__entry->function = function;
		__entry->error = error;
	),
	TP_printk("vgpu=%s type=%u function=%u error=%d", __get_str(vgpu), __entry->type,
		  __entry->function, __entry->error)
);

DECLARE_EVENT_CLASS(turnstile_vgpu,
	TP_PROTO(const char *vgpu),
	TP_ARGS(vgpu),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
	),
	TP_printk("vgpu=%s", __get_str(vgpu))
);

DEFINE_EVENT(turnstile_vgpu, turnstile_vgpu_destroy,
	TP_PROTO(const char *vgpu),
	TP_ARGS(vgpu)
);

DEFINE_EVENT(turnstile_vgpu, turnstile_vgpu_close,
	TP_PROTO(const char *vgpu),
	TP_ARGS(vgpu)
);

DEFINE_EVENT(turnstile_vgpu, turnstile_vgpu_reset,
	TP_PROTO(const char *vgpu),
	TP_ARGS(vgpu)
);

TRACE_EVENT(turnstile_vgpu_open,
	TP_PROTO(const char *vgpu, int error),
	TP_ARGS(vgpu, error),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(int, error)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->error = error;
	),
	TP_printk("vgpu=%s error=%d", __get_str(vgpu), __entry->error)
);

TRACE_EVENT(turnstile_slice,
	TP_PROTO(const char *gpu, const char *vgpu, u32 runlist, const struct ts_slice *slice),
	TP_ARGS(gpu, vgpu, runlist, slice),
	TP_STRUCT__entry(
		__string(gpu, gpu)
		__string(vgpu, vgpu)
		__field(u32, runlist)
		__field(u32, function)
		__field(u64, start_ns)
		__field(u64, time_ns)
		__field(u64, run_ns)
		__field(u64, target_ns)
		__field(u64, total_run_ns)
		__field(u64, overshoot_ns)
		__field(u64, preemptions)
	),
	TP_fast_assign(
		tsl_assign_str(gpu, gpu);
		tsl_assign_str(vgpu, vgpu);
		__entry->runlist = runlist;
		__entry->function = slice->function;
		__entry->start_ns = slice->start_ns;
		__entry->time_ns = slice->timestamp_ns;
		__entry->run_ns = slice->run_ns;
		__entry->target_ns = slice->target_ns;
		__entry->total_run_ns = slice->total_run_ns;
		__entry->overshoot_ns = slice->overshoot_ns;
		__entry->preemptions = slice->preemptions;
	),
	TP_printk("gpu=%s vgpu=%s runlist=%u function=%u start_ns=%llu time_ns=%llu run_ns=%llu target_ns=%llu total_run_ns=%llu overshoot_ns=%llu preemptions=%llu",
		  __get_str(gpu), __get_str(vgpu), __entry->runlist, __entry->function,
		  __entry->start_ns, __entry->time_ns, __entry->run_ns, __entry->target_ns,
		  __entry->total_run_ns, __entry->overshoot_ns, __entry->preemptions)
);

TRACE_EVENT(turnstile_preempt,
	TP_PROTO(const char *gpu, const char *vgpu, u32 runlist, u32 function, u32 next),
	TP_ARGS(gpu, vgpu, runlist, function, next),
	TP_STRUCT__entry(
		__string(gpu, gpu)
		__string(vgpu, vgpu)
		__field(u32, runlist)
		__field(u32, function)
		__field(u32, next)
	),
	TP_fast_assign(
		tsl_assign_str(gpu, gpu);
		tsl_assign_str(vgpu, vgpu);
		__entry->runlist = runlist;
		__entry->function = function;
		__entry->next = next;
	),
	TP_printk("gpu=%s vgpu=%s runlist=%u function=%u next=%u", __get_str(gpu),
		  __get_str(vgpu), __entry->runlist, __entry->function, __entry->next)
);

TRACE_EVENT(turnstile_switch,
	TP_PROTO(const char *gpu, const char *vgpu, u32 runlist, u32 from, u32 to, u32 entries),
	TP_ARGS(gpu, vgpu, runlist, from, to, entries),
	TP_STRUCT__entry(
		__string(gpu, gpu)
		__string(vgpu, vgpu)
		__field(u32, runlist)
		__field(u32, from)
		__field(u32, to)
		__field(u32, entries)
	),
	TP_fast_assign(
		tsl_assign_str(gpu, gpu);
		tsl_assign_str(vgpu, vgpu);
		__entry->runlist = runlist;
		__entry->from = from;
		__entry->to = to;
		__entry->entries = entries;
	),
	TP_printk("gpu=%s vgpu=%s runlist=%u from=%u to=%u entries=%u", __get_str(gpu),
		  __get_str(vgpu), __entry->runlist, __entry->from, __entry->to, __entry->entries)
);

TRACE_EVENT(turnstile_wake,
	TP_PROTO(const char *gpu, const char *vgpu, u32 function, bool doorbell),
	TP_ARGS(gpu, vgpu, function, doorbell),
	TP_STRUCT__entry(
		__string(gpu, gpu)
		__string(vgpu, vgpu)
		__field(u32, function)
		__field(bool, doorbell)
	),
	TP_fast_assign(
		tsl_assign_str(gpu, gpu);
		tsl_assign_str(vgpu, vgpu);
		__entry->function = function;
		__entry->doorbell = doorbell;
	),
	TP_printk("gpu=%s vgpu=%s function=%u by=%s", __get_str(gpu), __get_str(vgpu),
		  __entry->function, __entry->doorbell ? "doorbell" : "trap")
);

TRACE_EVENT(turnstile_ctxsw_timeout,
	TP_PROTO(const char *gpu, const char *vgpu, u32 engine, u32 tsgid),
	TP_ARGS(gpu, vgpu, engine, tsgid),
	TP_STRUCT__entry(
		__string(gpu, gpu)
		__string(vgpu, vgpu)
		__field(u32, engine)
		__field(u32, tsgid)
	),
	TP_fast_assign(
		tsl_assign_str(gpu, gpu);
		tsl_assign_str(vgpu, vgpu);
		__entry->engine = engine;
		__entry->tsgid = tsgid;
	),
	TP_printk("gpu=%s vgpu=%s engine=%u tsgid=%u", __get_str(gpu), __get_str(vgpu),
		  __entry->engine, __entry->tsgid)
);

TRACE_EVENT(turnstile_shadow_update,
	TP_PROTO(const char *vgpu, u64 entries, bool more),
	TP_ARGS(vgpu, entries, more),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u64, entries)
		__field(bool, more)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->entries = entries;
		__entry->more = more;
	),
	TP_printk("vgpu=%s entries=%llu more=%u", __get_str(vgpu), __entry->entries,
		  __entry->more)
);

TRACE_EVENT(turnstile_fault,
	TP_PROTO(const char *vgpu, u32 type, u32 engine, u32 access, u64 address),
	TP_ARGS(vgpu, type, engine, access, address),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u32, type)
		__field(u32, engine)
		__field(u32, access)
		__field(u64, address)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->type = type;
		__entry->engine = engine;
		__entry->access = access;
		__entry->address = address;
	),
	TP_printk("vgpu=%s type=%u engine=%u access=%u address=0x%llx", __get_str(vgpu),
		  __entry->type, __entry->engine, __entry->access, __entry->address)
);

TRACE_EVENT(turnstile_dma_unmap,
	TP_PROTO(const char *vgpu, u64 iova, u64 length),
	TP_ARGS(vgpu, iova, length),
	TP_STRUCT__entry(
		__string(vgpu, vgpu)
		__field(u64, iova)
		__field(u64, length)
	),
	TP_fast_assign(
		tsl_assign_str(vgpu, vgpu);
		__entry->iova = iova;
		__entry->length = length;
	),
	TP_printk("vgpu=%s iova=0x%llx length=0x%llx", __get_str(vgpu), __entry->iova,
		  __entry->length)
);

#endif /* TURNSTILE_TRACE_H_ */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
