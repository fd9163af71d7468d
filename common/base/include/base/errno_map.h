// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Status <-> Linux errno. Only the files at the border to C use it.
#pragma once

#include "base/result.h"

namespace base {

// 0, or a negative Linux errno. The numbers are Linux's ABI (asm-generic/errno*.h), written out
// because neither <cerrno> nor a kernel header may be included in freestanding code.
constexpr int StatusToErrno(Status status) {
  switch (status) {
    case Status::kOk: return 0;
    case Status::kInvalidArgument: return -22;  // EINVAL
    case Status::kNoMemory: return -12;         // ENOMEM
    case Status::kNoSpace: return -28;          // ENOSPC
    case Status::kNotFound: return -2;          // ENOENT
    case Status::kExists: return -17;           // EEXIST
    case Status::kBusy: return -16;             // EBUSY
    case Status::kFault: return -14;            // EFAULT
    case Status::kPermission: return -1;        // EPERM
    case Status::kOutOfRange: return -34;       // ERANGE
    case Status::kNotSupported: return -95;     // EOPNOTSUPP
    case Status::kTimeout: return -110;         // ETIMEDOUT
    case Status::kIo: return -5;                // EIO
    case Status::kAgain: return -11;            // EAGAIN
    case Status::kCancelled: return -125;       // ECANCELED
  }
  return -5;
}

// The reverse, for results of C functions: >= 0 is kOk, an unlisted errno is kIo.
constexpr Status StatusFromErrno(int error) {
  if (error >= 0) return Status::kOk;
  switch (error) {
    case -22: return Status::kInvalidArgument;
    case -12: return Status::kNoMemory;
    case -28: return Status::kNoSpace;
    case -2:
    case -19:  // ENODEV
      return Status::kNotFound;
    case -17: return Status::kExists;
    case -16: return Status::kBusy;
    case -14: return Status::kFault;
    case -1:
    case -13:  // EACCES
      return Status::kPermission;
    case -34: return Status::kOutOfRange;
    case -95: return Status::kNotSupported;
    case -110: return Status::kTimeout;
    case -11:
    case -4:  // EINTR
      return Status::kAgain;
    case -125: return Status::kCancelled;
    default: return Status::kIo;
  }
}

}  // namespace base
