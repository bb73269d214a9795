//! Stopping a thread for ever, from outside.
//!
//! A thread in an endless loop, or in a system call that does not return, cannot be ended: nothing
//! unwinds it, and what it owns is closed by nobody. But it can be kept from ever running a line of
//! its own again: a signal whose handler does not return. Then the sockets that were bound to its
//! leash are taken out of its hands, on the kernel's side only: their descriptors and mappings stay
//! where the thread would find them, and have nothing behind them. Its memory is leaked, as there
//! is no telling in what state it is. So whoever takes its place needs memory of its own, and meets
//! nothing that the old one could still touch.
//!
//! Where the thread stood a debugger still shows. A lock that it held it holds for ever, which is
//! why a thread that only waits for its turn on a core must not be taken for one that hangs
//! ([`Leash::runs`]).

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// By which one thread is held by others.
#[derive(Default)]
pub struct Leash {
    /// The kernel's number of the thread; 0 while there is none.
    thread: AtomicI32,
    halted: AtomicBool,
    sockets: Mutex<Vec<Recall>>,
}

/// The thread has the leash on until this is dropped, at its end.
pub struct Wearing(Arc<Leash>);

thread_local! {
    static OWN: Cell<*const Leash> = const { Cell::new(std::ptr::null()) };
}

impl Leash {
    /// Puts the leash on the calling thread.
    pub fn put_on(self: &Arc<Leash>) -> Wearing {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(listen);
        OWN.set(Arc::as_ptr(self));
        // SAFETY: takes no pointers.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Release);
        Wearing(self.clone())
    }

    /// What takes a socket out of the thread's hands, which has it from now on.
    pub fn bind(&self, socket: Recall) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.retain(|socket| socket.is_open());
        sockets.push(socket);
    }

    /// Whether the thread runs, or would if it had a core: as one that has yet to begin.
    pub fn runs(&self) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        if thread == 0 {
            return true;
        }
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        // The name before it may hold anything, parentheses as well.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R'))
    }

    /// How long the thread has been on a core since it began.
    pub fn on_core(&self) -> Duration {
        let thread = self.thread.load(Ordering::Acquire);
        if thread == 0 {
            return Duration::ZERO;
        }
        // What the kernel calls MAKE_THREAD_CPUCLOCK(thread, CPUCLOCK_SCHED).
        let clock = (!thread << 3) | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the time. It fails when the thread is gone.
        match unsafe { libc::clock_gettime(clock, &mut time) } {
            0 => Duration::new(time.tv_sec as u64, time.tv_nsec as u32),
            _ => Duration::ZERO,
        }
    }

    /// Stops the thread for ever, and closes its sockets. False when it is in a system call that
    /// does not end: it will stop before it comes back from there; ask again.
    pub fn halt(&self, patience: Duration) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        if thread == 0 {
            return false;
        }
        if !self.halted.load(Ordering::Acquire) {
            // SAFETY: takes no pointers; the thread is one of this process, whose handler is
            // installed.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
        }
        let deadline = Instant::now() + patience;
        while !self.halted.load(Ordering::Acquire) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        for socket in sockets.drain(..) {
            // Should it fail, the queue stays occupied, and is Linux's.
            let _ = socket.close();
        }
        true
    }
}

impl Drop for Wearing {
    fn drop(&mut self) {
        self.0.thread.store(0, Ordering::Release);
        OWN.set(std::ptr::null());
    }
}

/// The second of those that programs may use as they like.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 1
}

fn listen() {
    // SAFETY: plain numbers, valid when zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = halt;
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the mask is ours, and `action` outlives the call. The handler does only what a
    // handler may.
    unsafe {
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal(), &action, std::ptr::null_mut());
    }
}

/// What a thread that is halted does for ever.
extern "C" fn halt(_: libc::c_int) {
    // SAFETY: the leash lives while the thread has it on, and the cell needs no set-up that could
    // be under way.
    let Some(leash) = (unsafe { OWN.get().as_ref() }) else { return };
    leash.halted.store(true, Ordering::Release);
    loop {
        // SAFETY: takes no pointers. Every signal is blocked here, so it does not come back.
        unsafe { libc::pause() };
    }
}

/// What takes an AF_XDP socket out of the hands of a thread that is halted.
pub struct Recall {
    descriptor: RawFd,
    /// Address and bytes of each of its rings.
    rings: [(usize, usize); 4],
    open: Arc<AtomicBool>,
}

impl Recall {
    /// `open` says whether the owner still has the socket.
    pub(crate) fn new(descriptor: RawFd, rings: [(usize, usize); 4], open: Arc<AtomicBool>) -> Recall {
        Recall { descriptor, rings, open }
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Puts nothing in the place of the rings and the descriptor, which ends the socket.
    fn close(self) -> io::Result<()> {
        if !self.is_open() {
            return Ok(());
        }
        let nothing = std::fs::File::open("/dev/null")?;
        for (address, bytes) in self.rings {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: the ring of a socket whose owner has it still and never runs again: nobody
            // sees the memory change.
            let mapped = unsafe { libc::mmap(address as *mut _, bytes, protection, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: takes no pointers; the number is the socket's, as its owner has it still.
        match unsafe { libc::dup3(nothing.as_raw_fd(), self.descriptor, libc::O_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn wearing(work: impl FnOnce() + Send + 'static) -> Arc<Leash> {
        let leash = Arc::<Leash>::default();
        let worn = leash.clone();
        std::thread::spawn(move || {
            let _wearing = worn.put_on();
            work();
        });
        while leash.thread.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        leash
    }

    #[test]
    fn a_thread_in_an_endless_loop_never_runs_again() {
        let turns = Arc::<AtomicU64>::default();
        let counted = turns.clone();
        let leash = wearing(move || {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        while leash.on_core() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        assert!(leash.runs());
        assert!(leash.halt(Duration::from_secs(10)));
        let before = turns.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(turns.load(Ordering::Relaxed), before);
        assert!(!leash.runs());
    }

    #[test]
    fn a_thread_that_waits_in_the_kernel_is_halted_there() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let came_back = Arc::<AtomicBool>::default();
        let back = came_back.clone();
        let leash = wearing(move || {
            let _ = receiver.recv();
            back.store(true, Ordering::Release);
        });
        while leash.runs() {
            std::thread::yield_now();
        }
        assert!(leash.halt(Duration::from_secs(10)));
        drop(sender);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!came_back.load(Ordering::Acquire));
    }

    #[test]
    fn one_that_has_ended_is_not_mistaken_for_another() {
        let leash = Arc::<Leash>::default();
        let worn = leash.clone();
        assert!(leash.runs() && leash.on_core().is_zero());
        std::thread::spawn(move || drop(worn.put_on())).join().unwrap();
        assert!(!leash.halt(Duration::from_millis(1)));
    }
}
