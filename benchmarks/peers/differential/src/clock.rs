//! The clock of both programs.

/// Processor time of this process.
pub fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Safety: the pointer is to a timespec of this frame.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "this system has no clock of processor time");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
