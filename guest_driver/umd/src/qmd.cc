// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "qmd.h"

#include "ts104/typed.h"

namespace libts104 {

Qmd BuildQmd(const LaunchParams& params) {
  using Q = ts104::compute_methods::Qmdv0203;
  Qmd qmd = {};
  Q::QmdMajorVersion::Set(qmd, Q::kQmdMajorVersionCurrent);
  Q::QmdVersion::Set(qmd, Q::kQmdVersionCurrent);
  Q::ProgramAddressLower::Set(qmd, params.program_va & 0xffffffff);
  Q::ProgramAddressUpper::Set(qmd, params.program_va >> 32);
  Q::CtaRasterWidth::Set(qmd, params.grid.x);
  Q::CtaRasterHeight::Set(qmd, params.grid.y);
  Q::CtaRasterDepth::Set(qmd, params.grid.z);
  Q::CtaThreadDimension0::Set(qmd, params.cta.x);
  Q::CtaThreadDimension1::Set(qmd, params.cta.y);
  Q::CtaThreadDimension2::Set(qmd, params.cta.z);
  Q::SharedMemorySize::Set(qmd, params.shared_bytes);
  Q::ShaderLocalMemoryLowSize::Set(qmd, params.local_bytes);
  Q::BarrierCount::Set(qmd, params.barriers);
  Q::RegisterCountV::Set(qmd, 64);
  // Code may have been replaced at an address that was used before.
  Q::InvalidateInstructionCache::Set(qmd, 1);
  Q::InvalidateShaderConstantCache::Set(qmd, 1);
  if (params.args_bytes != 0) {
    Q::ConstantBufferValid0::Set(qmd, 1);
    Q::ConstantBufferAddrLower0::Set(qmd, params.args_va & 0xffffffff);
    Q::ConstantBufferAddrUpper0::Set(qmd, params.args_va >> 32);
    Q::ConstantBufferSizeShifted40::Set(qmd, (params.args_bytes + 15) / 16);
  }
  return qmd;
}

}  // namespace libts104
