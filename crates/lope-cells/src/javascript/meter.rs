//! What a call of a script has spent: steps of the engine, and what the engine does in one go without
//! counting it, which is long loops of built-ins and large pieces of memory.
//!
//! All of it is counted, not measured: a call spends the same on every machine. What cannot be counted
//! (two long texts compared, a long text as a key) the time of the processor bounds in the end: it can
//! end a call with an error and nothing else.

use std::cell::Cell as Slot;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use lope_model::{Failure, failure};
use rquickjs::allocator::{Allocator, RustAllocator};
use rustix::time::{ClockId, clock_gettime};

/// Calls and loops between two interrupts of the engine.
const STEPS_PER_INTERRUPT: u64 = 10_000;

/// A piece of memory of so many bytes is filled in about one step.
const BYTES_PER_STEP: usize = 32;

/// Smaller pieces are made by so many steps that these pay for them.
const BYTES_COUNTED_FROM: usize = 16 * 1_024;

/// The steps that are left to a call.
#[derive(Clone, Default)]
pub(super) struct FuelMeter {
    left: Rc<Slot<u64>>,
    /// When the thread will have worked too long on the call, in its own processor time.
    until: Rc<Slot<Option<Duration>>>,
    is_late: Rc<Slot<bool>>,
}

impl FuelMeter {
    /// Fills it for a call: so many interrupts, and so much time.
    pub(super) fn fill(&self, interrupts: u64, time: Duration) {
        self.left
            .set(interrupts.saturating_mul(STEPS_PER_INTERRUPT));
        self.until.set(Some(worked().saturating_add(time)));
        self.is_late.set(false);
    }

    /// Whether everything is spent.
    pub(super) fn is_empty(&self) -> bool {
        self.left.get() == 0
    }

    /// Why a call ends that has nothing left.
    pub(super) fn spent(&self) -> Option<Failure> {
        let why = if self.is_late.get() {
            "the script took more time of the processor than it may"
        } else {
            "the script used up its fuel"
        };
        let spent = || Failure::new(failure::kind::LIMIT, why);
        self.is_empty().then(spent)
    }

    /// Takes what the engine does between two interrupts; says whether anything is left.
    pub(super) fn take_interrupt(&self) -> bool {
        if self.until.get().is_some_and(|until| worked() > until) {
            self.is_late.set(!self.is_empty());
            self.left.set(0);
        }
        self.take(STEPS_PER_INTERRUPT)
    }

    /// Takes so many steps; says whether anything is left.
    pub(super) fn take(&self, steps: u64) -> bool {
        self.left.set(self.left.get().saturating_sub(steps));
        !self.is_empty()
    }

    /// Takes what a piece of memory costs; says whether anything is left.
    fn take_bytes(&self, bytes: usize) -> bool {
        bytes < BYTES_COUNTED_FROM || self.take((bytes / BYTES_PER_STEP) as u64)
    }
}

/// How long this thread has been at work.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl fmt::Debug for FuelMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FuelMeter").field(&self.left.get()).finish()
    }
}

/// Memory for the engine, as long as the call can pay for it.
pub(super) struct MeteredAllocator(pub(super) FuelMeter);

#[allow(
    unsafe_code,
    reason = "the engine asks for memory by this trait, which is the only place that sees how much"
)]
// SAFETY: everything is done by the allocator behind it, or refused with a null pointer.
unsafe impl Allocator for MeteredAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if self.0.take_bytes(size) {
            RustAllocator.alloc(size)
        } else {
            std::ptr::null_mut()
        }
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if self.0.take_bytes(count.saturating_mul(size)) {
            RustAllocator.calloc(count, size)
        } else {
            std::ptr::null_mut()
        }
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        // SAFETY: the caller promises what the allocator behind this one asks for.
        unsafe { RustAllocator.dealloc(ptr) }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        if !self.0.take_bytes(new_size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller promises what the allocator behind this one asks for.
        unsafe { RustAllocator.realloc(ptr, new_size) }
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        // SAFETY: the caller promises what the allocator behind this one asks for.
        unsafe { RustAllocator::usable_size(ptr) }
    }
}
