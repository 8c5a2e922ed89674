//! A fork of the test's process, and what it found.

#![expect(unsafe_code, reason = "forking is unsafe")]

/// What a fork of this process finds, as an exit code. One that hangs is ended by a signal, after two minutes.
///
/// `child` may take no lock that another thread of this process may hold.
pub(crate) fn in_a_fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `child` and exits at once. It takes no lock that may be held; the system's allocator may be
    // used in a fork.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: only sets an alarm.
        unsafe { libc::alarm(40) };
        let code = child();
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(code) };
    }
    assert!(process > 0, "the system forks");
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process);
    assert!(
        libc::WIFEXITED(status),
        "the child was stopped: {status:#x}"
    );
    libc::WEXITSTATUS(status)
}
