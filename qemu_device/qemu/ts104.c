/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TS104 as a QEMU PCI device.
 *
 * This file is the PCI part: config space, BARs, MSI-X, DMA, reset. Everything else is the model
 * (qemu_device/core, model_abi.h). The file is valid in QEMU's tree and as a plugin for a stock QEMU
 * (LD_PRELOAD, abi_guard.c).
 *
 * Threads: MMIO and reset run in vCPU threads or the main loop with the big lock held; DMA runs in the
 * model's thread without it; interrupts come from any thread and are delivered by a bottom half.
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/rcu.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#if __has_include("system/memory.h")
#include "system/memory.h" /* since 10.1 */
#else
#include "exec/memory.h"
#endif
#include "exec/cpu-common.h"
#include "hw/pci/msi.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_device.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "system/dma.h"
#include "model_abi.h"
#include "ts104/regs.h"
#include "abi_guard.h"

#define TYPE_TS104 "ts104"
OBJECT_DECLARE_SIMPLE_TYPE(Ts104State, TS104)

struct Ts104State {
    PCIDevice parent_obj;

    MemoryRegion bar0;
    MemoryRegion vram;
    MemoryRegion bar3;
    ts104_model *model;
    QEMUBH *irq_bh;
    int64_t epoch_ns; /* Unix time of virtual clock 0 */

    /* From the model's threads to the bottom half. */
    uint32_t msix_pending;
    bool msi_pending;
    bool intx_level;

    uint64_t vram_bytes;
    uint32_t engine_mhz;
    uint32_t sms;
    uint32_t ctxsw_us;
};

/* The model's thread is not one of QEMU's: it joins RCU at its first access and leaves at its end. */
static __thread bool rcu_joined;
static pthread_key_t rcu_leave_key;

static void ts104_rcu_leave(void *unused)
{
    rcu_unregister_thread();
}

static void ts104_rcu_join(void)
{
    if (!rcu_joined && !bql_locked()) {
        rcu_register_thread();
        pthread_setspecific(rcu_leave_key, &rcu_leave_key);
        rcu_joined = true;
    }
}

static int ts104_dma(Ts104State *s, uint64_t addr, void *buf, uint64_t len,
                     DMADirection dir)
{
    /* Plain memory only: an access to another device's registers would need the big lock. */
    const MemTxAttrs attrs = { .memory = 1, .requester_id = pci_requester_id(&s->parent_obj) };

    ts104_rcu_join();
    return dma_memory_rw(pci_get_address_space(&s->parent_obj), addr, buf, len,
                         dir, attrs) == MEMTX_OK ? 0 : -EIO;
}

static int ts104_dma_read(void *opaque, uint64_t addr, void *buf, uint64_t len)
{
    return ts104_dma(opaque, addr, buf, len, DMA_DIRECTION_TO_DEVICE);
}

static int ts104_dma_write(void *opaque, uint64_t addr, const void *buf,
                           uint64_t len)
{
    return ts104_dma(opaque, addr, (void *)buf, len, DMA_DIRECTION_FROM_DEVICE);
}

static uint64_t ts104_now_ns(void *opaque)
{
    Ts104State *s = opaque;

    return s->epoch_ns + qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static void ts104_irq(void *opaque, uint32_t msix_pulse_mask, bool msi_pulse,
                      bool intx_level)
{
    Ts104State *s = opaque;

    qatomic_or(&s->msix_pending, msix_pulse_mask);
    if (msi_pulse) {
        qatomic_set(&s->msi_pending, true);
    }
    qatomic_set(&s->intx_level, intx_level);
    qemu_bh_schedule(s->irq_bh);
}

static int ts104_vram_clear(void *opaque)
{
    Ts104State *s = opaque;

    return ram_block_discard_range(s->vram.ram_block, 0, s->vram_bytes);
}

static void ts104_irq_bh(void *opaque)
{
    Ts104State *s = opaque;
    PCIDevice *pci = &s->parent_obj;
    uint32_t msix = qatomic_xchg(&s->msix_pending, 0);
    bool msi = qatomic_xchg(&s->msi_pending, false);

    if (msix_enabled(pci)) {
        for (unsigned i = 0; i < TS104_PCI_MSIX_VECTORS; i++) {
            if (msix & (1u << i)) {
                msix_notify(pci, i);
            }
        }
    } else if (msi_enabled(pci)) {
        if (msi) {
            msi_notify(pci, 0);
        }
    } else {
        pci_set_irq(pci, qatomic_read(&s->intx_level));
    }
}

static bool in_config_mirror(hwaddr addr)
{
    return addr >= NV_FUNC_CONFIG_MIRROR_BASE &&
           addr - NV_FUNC_CONFIG_MIRROR_BASE < NV_FUNC_CONFIG_MIRROR_SIZE;
}

static uint64_t ts104_bar0_mmio_read(void *opaque, hwaddr addr, unsigned size)
{
    Ts104State *s = opaque;

    if (in_config_mirror(addr)) {
        uint32_t off = addr - NV_FUNC_CONFIG_MIRROR_BASE;

        if (off + size > pci_config_size(&s->parent_obj)) {
            return 0;
        }
        return pci_default_read_config(&s->parent_obj, off, size);
    }
    return ts104_bar0_read(s->model, addr, size);
}

static void ts104_bar0_mmio_write(void *opaque, hwaddr addr, uint64_t val,
                                  unsigned size)
{
    Ts104State *s = opaque;

    if (!in_config_mirror(addr)) {
        ts104_bar0_write(s->model, addr, size, val);
    }
}

static uint64_t ts104_bar3_mmio_read(void *opaque, hwaddr addr, unsigned size)
{
    return ts104_bar3_read(((Ts104State *)opaque)->model, addr, size);
}

static void ts104_bar3_mmio_write(void *opaque, hwaddr addr, uint64_t val,
                                  unsigned size)
{
    ts104_bar3_write(((Ts104State *)opaque)->model, addr, size, val);
}

/* QEMU splits an 8-byte access into two of 4, low first, as the register map asks. */
static const MemoryRegionOps ts104_bar0_ops = {
    .read = ts104_bar0_mmio_read,
    .write = ts104_bar0_mmio_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8 },
    .impl = { .min_access_size = 1, .max_access_size = 4 },
};

static const MemoryRegionOps ts104_bar3_ops = {
    .read = ts104_bar3_mmio_read,
    .write = ts104_bar3_mmio_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8 },
    .impl = { .min_access_size = 1, .max_access_size = 4 },
};

static void ts104_sync_bus_master(Ts104State *s)
{
    ts104_bus_master(s->model, pci_get_word(s->parent_obj.config + PCI_COMMAND) &
                               PCI_COMMAND_MASTER);
}

static void ts104_write_config(PCIDevice *pci, uint32_t addr, uint32_t val,
                               int len)
{
    Ts104State *s = TS104(pci);

    pci_default_write_config(pci, addr, val, len);
    pcie_cap_flr_write_config(pci, addr, val, len);
    ts104_sync_bus_master(s);
    /* INTx may have to rise or fall when MSI or MSI-X is switched. */
    qemu_bh_schedule(s->irq_bh);
}

static void ts104_device_reset(DeviceState *dev)
{
    Ts104State *s = TS104(dev);

    ts104_reset(s->model);
    qatomic_set(&s->msix_pending, 0);
    qatomic_set(&s->msi_pending, false);
    qatomic_set(&s->intx_level, false);
    pci_set_irq(&s->parent_obj, 0);
    ts104_sync_bus_master(s);
}

static bool ts104_add_capabilities(Ts104State *s, Error **errp)
{
    PCIDevice *pci = &s->parent_obj;
    int ret;

    if (pci_pm_init(pci, TS104_PCI_CAP_PM, errp) < 0) {
        return false;
    }
    ret = msi_init(pci, TS104_PCI_CAP_MSI, 1, true, false, errp);
    if (ret < 0) {
        return false;
    }
    ret = pcie_endpoint_cap_init(pci, TS104_PCI_CAP_PCIE);
    if (ret < 0) {
        error_setg_errno(errp, -ret, "ts104: cannot add the PCIe capability");
        return false;
    }
    pcie_cap_flr_init(pci);
    ret = msix_init(pci, TS104_PCI_MSIX_VECTORS, &s->bar0, TS104_PCI_BAR0_INDEX,
                    NV_FUNC_MSIX_TABLE, &s->bar0, TS104_PCI_BAR0_INDEX,
                    NV_FUNC_MSIX_PBA, TS104_PCI_CAP_MSIX, errp);
    if (ret < 0) {
        return false;
    }
    for (unsigned i = 0; i < TS104_PCI_MSIX_VECTORS; i++) {
        msix_vector_use(pci, i);
    }
    return true;
}

static bool ts104_check_vram(Ts104State *s, Error **errp)
{
    const uint64_t min = TS104_PCI_VRAM_MIN_MIB * MiB;
    const uint64_t max = TS104_PCI_VRAM_MAX_MIB * MiB;

    if (!is_power_of_2(s->vram_bytes) || s->vram_bytes < min ||
        s->vram_bytes > max) {
        error_setg(errp, "ts104: vram=%" PRIu64 " is not a power of two from "
                   "%uM to %uM", s->vram_bytes, TS104_PCI_VRAM_MIN_MIB,
                   TS104_PCI_VRAM_MAX_MIB);
        return false;
    }
    return true;
}

static void ts104_realize(PCIDevice *pci, Error **errp)
{
    static const struct ts104_host_ops ops = {
        .dma_read = ts104_dma_read,
        .dma_write = ts104_dma_write,
        .now_ns = ts104_now_ns,
        .irq = ts104_irq,
        .vram_clear = ts104_vram_clear,
    };
    Ts104State *s = TS104(pci);
    char message[256] = "";
    int ret;

    if (!ts104_check_vram(s, errp)) {
        return;
    }
    if (!memory_region_init_ram(&s->vram, OBJECT(s), "ts104.vram",
                                s->vram_bytes, errp)) {
        return;
    }
    s->epoch_ns = g_get_real_time() * SCALE_US -
                  qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    s->irq_bh = qemu_bh_new_guarded(ts104_irq_bh, s,
                                    &DEVICE(s)->mem_reentrancy_guard);

    const struct ts104_config config = {
        .vram_bytes = s->vram_bytes,
        .engine_mhz = s->engine_mhz,
        .sms = s->sms,
        .ctxsw_us = s->ctxsw_us,
    };
    s->model = ts104_create(&config, memory_region_get_ram_ptr(&s->vram), &ops,
                            s, message, sizeof(message));
    if (!s->model) {
        error_setg(errp, "ts104: %s", message);
        goto free_bh;
    }

    pci_config_set_interrupt_pin(pci->config, 1);
    memory_region_init_io(&s->bar0, OBJECT(s), &ts104_bar0_ops, s, "ts104.regs",
                          TS104_PCI_BAR0_SIZE);
    memory_region_init_io(&s->bar3, OBJECT(s), &ts104_bar3_ops, s,
                          "ts104.functions", TS104_PCI_BAR3_SIZE);
    pci_register_bar(pci, TS104_PCI_BAR0_INDEX, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->bar0);
    pci_register_bar(pci, TS104_PCI_BAR1_INDEX, PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
                     &s->vram);
    pci_register_bar(pci, TS104_PCI_BAR3_INDEX, PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
                     &s->bar3);
    if (!ts104_add_capabilities(s, errp)) {
        goto free_model;
    }
    ret = ts104_start_thread(s->model);
    if (ret) {
        error_setg_errno(errp, ret, "ts104: cannot start the GPU's thread");
        goto free_msix;
    }
    return;

free_msix:
    msix_uninit(pci, &s->bar0, &s->bar0);
free_model:
    msi_uninit(pci);
    ts104_destroy(s->model);
    s->model = NULL;
free_bh:
    qemu_bh_delete(s->irq_bh);
}

static void ts104_exit(PCIDevice *pci)
{
    Ts104State *s = TS104(pci);

    ts104_destroy(s->model);
    s->model = NULL;
    qemu_bh_delete(s->irq_bh);
    msix_uninit(pci, &s->bar0, &s->bar0);
    msi_uninit(pci);
}

static const Property ts104_properties[] = {
    DEFINE_PROP_SIZE("vram", Ts104State, vram_bytes, 512 * MiB),
    DEFINE_PROP_UINT32("engine-mhz", Ts104State, engine_mhz, 25),
    DEFINE_PROP_UINT32("sms", Ts104State, sms, 4),
    DEFINE_PROP_UINT32("ctxsw-us", Ts104State, ctxsw_us, 125),
};

#if QEMU_VERSION_MAJOR > 10 || (QEMU_VERSION_MAJOR == 10 && QEMU_VERSION_MINOR >= 1)
static void ts104_class_init(ObjectClass *klass, const void *data)
#else
static void ts104_class_init(ObjectClass *klass, void *data)
#endif
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(klass);

    ts104_abi_guard(klass);
    pthread_key_create(&rcu_leave_key, ts104_rcu_leave);

    dc->desc = "Turnstile TS104 GPU";
    set_bit(DEVICE_CATEGORY_DISPLAY, dc->categories);
    device_class_set_legacy_reset(dc, ts104_device_reset);
    device_class_set_props(dc, ts104_properties);
    pc->realize = ts104_realize;
    pc->exit = ts104_exit;
    pc->config_write = ts104_write_config;
    pc->vendor_id = TS104_PCI_VENDOR_ID;
    pc->device_id = TS104_PCI_DEVICE_ID;
    pc->revision = TS104_PCI_REVISION;
    pc->class_id = TS104_PCI_CLASS_CODE >> 8;
    pc->subsystem_vendor_id = TS104_PCI_SUBSYSTEM_VENDOR_ID;
    pc->subsystem_id = TS104_PCI_SUBSYSTEM_ID_BARE;
}

static const TypeInfo ts104_type = {
    .name = TYPE_TS104,
    .parent = TYPE_PCI_DEVICE,
    .instance_size = sizeof(Ts104State),
    .class_init = ts104_class_init,
    .interfaces = (InterfaceInfo[]) {
        { INTERFACE_PCIE_DEVICE },
        { }
    },
};

static void ts104_register(void)
{
    type_register_static(&ts104_type);
}

type_init(ts104_register)
