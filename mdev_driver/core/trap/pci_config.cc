// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "core/trap/pci_config.h"

#include "ts104/regs.h"

namespace turnstile {

namespace {

// Offsets and bits of PCI 3.0 chapter 6 and PCIe 3.0 chapter 7.
constexpr size_t kVendor = 0x00;
constexpr size_t kDevice = 0x02;
constexpr size_t kCommand = 0x04;
constexpr size_t kStatus = 0x06;
constexpr size_t kRevisionClass = 0x08;
constexpr size_t kBar0 = 0x10;
constexpr size_t kBar1 = 0x14;
constexpr size_t kBar3 = 0x1c;
constexpr size_t kSubsystemVendor = 0x2c;
constexpr size_t kSubsystem = 0x2e;
constexpr size_t kCapabilities = 0x34;
constexpr size_t kInterruptLine = 0x3c;
constexpr size_t kInterruptPin = 0x3d;

constexpr uint64_t kCommandWritable = 0x0406;  // MEMORY, MASTER, INTX_DISABLE
constexpr uint64_t kStatusCapabilities = 0x0010;
constexpr uint64_t kBar64Prefetchable = 0xc;

constexpr uint8_t kIdPm = 0x01;
constexpr uint8_t kIdMsi = 0x05;
constexpr uint8_t kIdPcie = 0x10;
constexpr uint8_t kIdMsix = 0x11;
constexpr size_t kDeviceControl = TS104_PCI_CAP_PCIE + 8;
constexpr uint64_t kFlr = 0x8000;  // INITIATE_FUNCTION_LEVEL_RESET: reads 0

}  // namespace

PciConfig::PciConfig(uint64_t bar1_bytes, uint64_t bar3_bytes, uint16_t subsystem) {
  Define(kVendor, 2, TS104_PCI_VENDOR_ID, 0);
  Define(kDevice, 2, TS104_PCI_DEVICE_ID, 0);
  Define(kCommand, 2, 0, kCommandWritable);
  Define(kStatus, 2, kStatusCapabilities, 0);
  Define(kRevisionClass, 4, TS104_PCI_REVISION | TS104_PCI_CLASS_CODE << 8, 0);
  Define(kBar0, 4, 0, ~(TS104_PCI_BAR0_SIZE - 1));
  Define(kBar1, 8, kBar64Prefetchable, ~(bar1_bytes - 1));
  Define(kBar3, 8, kBar64Prefetchable, ~(bar3_bytes - 1));
  Define(kSubsystemVendor, 2, TS104_PCI_SUBSYSTEM_VENDOR_ID, 0);
  Define(kSubsystem, 2, subsystem, 0);
  Define(kCapabilities, 1, TS104_PCI_CAP_PM, 0);
  Define(kInterruptLine, 1, 0, 0xff);
  Define(kInterruptPin, 1, 1, 0);
  DefineCapabilities();
  Reset();
}

void PciConfig::DefineCapabilities() {
  Define(TS104_PCI_CAP_PM, 2, kIdPm | TS104_PCI_CAP_MSI << 8, 0);
  Define(TS104_PCI_CAP_PM + 2, 2, 0x0003, 0);       // version 3
  Define(TS104_PCI_CAP_PM + 4, 2, 0x0008, 0x0003);  // NO_SOFT_RESET; power state
  Define(TS104_PCI_CAP_MSI, 2, kIdMsi | TS104_PCI_CAP_PCIE << 8, 0);
  Define(TS104_PCI_CAP_MSI + 2, 2, 0x0080, 0x0001);  // 64 bit, one message; ENABLE
  Define(TS104_PCI_CAP_MSI + 4, 4, 0, 0xfffffffc);
  Define(TS104_PCI_CAP_MSI + 8, 4, 0, 0xffffffff);
  Define(TS104_PCI_CAP_MSI + 12, 2, 0, 0xffff);
  Define(TS104_PCI_CAP_PCIE, 2, kIdPcie | TS104_PCI_CAP_MSIX << 8, 0);
  Define(TS104_PCI_CAP_PCIE + 2, 2, 0x0002, 0);      // version 2, endpoint
  Define(TS104_PCI_CAP_PCIE + 4, 4, 0x10008000, 0);  // FLR, role-based errors
  Define(kDeviceControl, 2, 0x0810, 0x7fff);
  Define(TS104_PCI_CAP_PCIE + 12, 4, 0x00000011, 0);  // link: 2.5 GT/s, x1
  Define(TS104_PCI_CAP_PCIE + 18, 2, 0x0011, 0);
  Define(TS104_PCI_CAP_MSIX, 2, kIdMsix, 0);
  Define(TS104_PCI_CAP_MSIX + 2, 2, TS104_PCI_MSIX_VECTORS - 1, 0xc000);
  Define(TS104_PCI_CAP_MSIX + 4, 4, NV_FUNC_MSIX_TABLE | TS104_PCI_BAR0_INDEX, 0);
  Define(TS104_PCI_CAP_MSIX + 8, 4, NV_FUNC_MSIX_PBA | TS104_PCI_BAR0_INDEX, 0);
}

void PciConfig::Define(size_t offset, size_t length, uint64_t value, uint64_t writable) {
  for (size_t i = 0; i < length; ++i) {
    power_on_[offset + i] = static_cast<uint8_t>(value >> (8 * i));
    writable_[offset + i] = static_cast<uint8_t>(writable >> (8 * i));
  }
}

uint64_t PciConfig::Read(uint64_t offset, size_t length) const {
  uint64_t value = 0;
  for (size_t i = 0; i < length; ++i) {
    if (offset < kSize && offset + i < kSize) value |= uint64_t{bytes_[offset + i]} << (8 * i);
  }
  return value;
}

PciConfig::Effects PciConfig::Write(uint64_t offset, uint64_t value, size_t length) {
  Effects effects;
  for (size_t i = 0; i < length; ++i) {
    if (offset >= kSize || offset + i >= kSize) break;
    const size_t at = offset + i;
    const auto byte = static_cast<uint8_t>(value >> (8 * i));
    const auto mask = writable_[at];
    bytes_[at] = static_cast<uint8_t>((bytes_[at] & ~mask) | (byte & mask));
    if (at == kDeviceControl + 1 && (byte & (kFlr >> 8)) != 0) effects.reset = true;
    if (at == kCommand || at == kCommand + 1) effects.command_changed = true;
  }
  return effects;
}

void PciConfig::Reset() { bytes_ = power_on_; }

}  // namespace turnstile
