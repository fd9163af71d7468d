// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// Clang's thread safety analysis. Clang builds use -Wthread-safety -Werror; GCC sees nothing.
#pragma once

#if defined(__clang__)
#define TS_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TS_THREAD_ATTRIBUTE(x)
#endif

// On a class: it is a lock / it holds a lock as long as it lives.
#define TS_CAPABILITY(name) TS_THREAD_ATTRIBUTE(capability(name))
#define TS_SCOPED_CAPABILITY TS_THREAD_ATTRIBUTE(scoped_lockable)

// On a member: touched only with the lock held / the pointed-to data is.
#define TS_GUARDED_BY(lock) TS_THREAD_ATTRIBUTE(guarded_by(lock))
#define TS_PT_GUARDED_BY(lock) TS_THREAD_ATTRIBUTE(pt_guarded_by(lock))

// On a lock member: order of acquisition.
#define TS_ACQUIRED_BEFORE(...) TS_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
#define TS_ACQUIRED_AFTER(...) TS_THREAD_ATTRIBUTE(acquired_after(__VA_ARGS__))

// On a function: the caller holds it / must not hold it; the function takes it / lets it go.
#define TS_REQUIRES(...) TS_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TS_EXCLUDES(...) TS_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define TS_ACQUIRE(...) TS_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TS_RELEASE(...) TS_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TS_ASSERT_CAPABILITY(lock) TS_THREAD_ATTRIBUTE(assert_capability(lock))
#define TS_RETURN_CAPABILITY(lock) TS_THREAD_ATTRIBUTE(lock_returned(lock))

// On a function whose locking the analysis cannot follow; say why beside it.
#define TS_NO_THREAD_SAFETY_ANALYSIS TS_THREAD_ATTRIBUTE(no_thread_safety_analysis)
