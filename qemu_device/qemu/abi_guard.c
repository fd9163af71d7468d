/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "qemu/osdep.h"
#include "qapi/qapi-commands-control.h"
#include "hw/pci/pci_device.h"
#include "abi_guard.h"

/*
 * The first members of QEMU's private struct TypeImpl, unchanged since 2012. Trusted only when the
 * name found there is the very string that the public interface returns.
 */
struct type_prefix {
    const char *name;
    size_t class_size;
    size_t instance_size;
};

static void G_NORETURN refuse(const char *what, size_t theirs, size_t ours)
{
    fprintf(stderr, "ts104: this plugin was compiled for QEMU %s and cannot run here: %s is %zu, "
            "expected %zu\n", QEMU_VERSION, what, theirs, ours);
    exit(1);
}

static void check_version(void)
{
    VersionInfo *version = qmp_query_version(NULL);
    int64_t major = version->qemu->major;
    int64_t minor = version->qemu->minor;

    qapi_free_VersionInfo(version);
    if (major != QEMU_VERSION_MAJOR) {
        refuse("QEMU's major version", major, QEMU_VERSION_MAJOR);
    }
    if (minor != QEMU_VERSION_MINOR) {
        refuse("QEMU's minor version", minor, QEMU_VERSION_MINOR);
    }
}

static void check_sizes(const char *type_name, size_t class_size,
                        size_t instance_size)
{
    ObjectClass *klass = object_class_by_name(type_name);
    const struct type_prefix *type = klass ? (const void *)klass->type : NULL;
    g_autofree char *what = NULL;

    if (!type || type->name != object_class_get_name(klass)) {
        refuse("the layout of QOM's types", 1, 0);
    }
    if (type->class_size != class_size) {
        what = g_strdup_printf("the size of class %s", type_name);
        refuse(what, type->class_size, class_size);
    }
    if (type->instance_size != instance_size) {
        what = g_strdup_printf("the size of %s", type_name);
        refuse(what, type->instance_size, instance_size);
    }
}

void ts104_abi_guard(ObjectClass *klass)
{
    check_version();
    check_sizes(TYPE_DEVICE, sizeof(DeviceClass), sizeof(DeviceState));
    check_sizes(TYPE_PCI_DEVICE, sizeof(PCIDeviceClass), sizeof(PCIDevice));
}
