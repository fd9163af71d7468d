/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints, events/turnstile/. `vgpu` is the UUID of the mediated device.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM turnstile

#if !defined(TURNSTILE_TRACE_H_) || defined(TRACE_HEADER_MULTI_READ)
#define TURNSTILE_TRACE_H_

#include <linux/tracepoint.h>

#include "compat.h"

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
	TP_printk("%s %s region %u offset 0x%llx size %u value 0x%llx", __get_str(vgpu),
		  __entry->write ? "write" : "read", __entry->region, __entry->offset,
		  __entry->size, __entry->value)
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
	TP_printk("%s runlist %u submit 0x%x", __get_str(vgpu), __entry->runlist, __entry->value)
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
	TP_printk("%s %s vector %u%s", __get_str(vgpu),
		  __print_symbolic(__entry->kind, { 1, "INTx" }, { 2, "MSI" }, { 3, "MSI-X" }),
		  __entry->vector, __entry->heard ? "" : " (nobody listens)")
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
	TP_printk("%s gpa 0x%llx pages %u of %u", __get_str(vgpu), __entry->gpa, __entry->done,
		  __entry->asked)
);

DEFINE_EVENT(turnstile_pages, turnstile_pin,
	TP_PROTO(const char *vgpu, u64 gpa, u32 asked, u32 done),
	TP_ARGS(vgpu, gpa, asked, done)
);

DEFINE_EVENT(turnstile_pages, turnstile_unpin,
	TP_PROTO(const char *vgpu, u64 gpa, u32 asked, u32 done),
	TP_ARGS(vgpu, gpa, asked, done)
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
	TP_printk("%s iova 0x%llx length 0x%llx", __get_str(vgpu), __entry->iova,
		  __entry->length)
);

#endif /* TURNSTILE_TRACE_H_ */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
