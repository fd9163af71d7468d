// SPDX-License-Identifier: GPL-2.0-only
/*
 * The one file that makes the tracepoints of trace.h, and what the core calls to tell of them. Names
 * are looked up behind the static key: a tracepoint that is off is one jump over nothing.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"

#include "turnstile.h"

static const char *tsl_gpu_name(const struct ts_host_gpu *gpu)
{
	return pci_name(gpu->pdev);
}

static const char *tsl_vgpu_name(const struct ts_host_vgpu *vgpu)
{
	return vgpu ? dev_name(vgpu->vdev.dev) : "-";
}

void ts_host_trace_slice(struct ts_host_gpu *gpu, struct ts_host_vgpu *vgpu, uint32_t runlist,
			 const struct ts_slice *slice)
{
	if (trace_turnstile_slice_enabled())
		trace_turnstile_slice(tsl_gpu_name(gpu), tsl_vgpu_name(vgpu), runlist, slice);
}

void ts_host_trace_preempt(struct ts_host_gpu *gpu, struct ts_host_vgpu *vgpu, uint32_t runlist,
			   uint32_t function, uint32_t next)
{
	if (trace_turnstile_preempt_enabled())
		trace_turnstile_preempt(tsl_gpu_name(gpu), tsl_vgpu_name(vgpu), runlist, function,
					next);
}

void ts_host_trace_switch(struct ts_host_gpu *gpu, struct ts_host_vgpu *vgpu, uint32_t runlist,
			  uint32_t from, uint32_t to, uint32_t entries)
{
	if (trace_turnstile_switch_enabled())
		trace_turnstile_switch(tsl_gpu_name(gpu), tsl_vgpu_name(vgpu), runlist, from, to,
				       entries);
}

void ts_host_trace_wake(struct ts_host_gpu *gpu, struct ts_host_vgpu *vgpu, uint32_t function,
			bool doorbell)
{
	if (trace_turnstile_wake_enabled())
		trace_turnstile_wake(tsl_gpu_name(gpu), tsl_vgpu_name(vgpu), function, doorbell);
}

void ts_host_trace_ctxsw_timeout(struct ts_host_gpu *gpu, struct ts_host_vgpu *vgpu,
				 uint32_t engine, uint32_t tsgid)
{
	if (trace_turnstile_ctxsw_timeout_enabled())
		trace_turnstile_ctxsw_timeout(tsl_gpu_name(gpu), tsl_vgpu_name(vgpu), engine,
					      tsgid);
}

void ts_host_trace_shadow_update(struct ts_host_vgpu *vgpu, uint64_t entries, bool more)
{
	if (trace_turnstile_shadow_update_enabled())
		trace_turnstile_shadow_update(tsl_vgpu_name(vgpu), entries, more);
}

void ts_host_trace_fault(struct ts_host_vgpu *vgpu, uint32_t type, uint32_t engine,
			 uint32_t access, uint64_t address)
{
	if (trace_turnstile_fault_enabled())
		trace_turnstile_fault(tsl_vgpu_name(vgpu), type, engine, access, address);
}

void ts_host_trace_reset(struct ts_host_vgpu *vgpu)
{
	if (trace_turnstile_vgpu_reset_enabled())
		trace_turnstile_vgpu_reset(tsl_vgpu_name(vgpu));
}
