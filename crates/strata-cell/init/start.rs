//! What the compiler takes for granted and a C library would have brought:
//! the entry point, the memory routines, and an end for what cannot happen.

use core::arch::naked_asm;
use core::panic::PanicInfo;

use crate::sys;

/// The kernel starts here with argc and argv on the stack.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {main}", "ud2",
        main = sym entry)
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov x29, xzr", "mov x0, sp", "bl {main}", "brk 1", main = sym entry)
}

extern "C" fn entry(stack: *const usize) -> ! {
    // SAFETY: the kernel lays out argc, then argc pointers to texts.
    let argc = unsafe { *stack };
    // SAFETY: as above.
    let argv = unsafe { stack.add(1) };
    crate::main(argc, argv)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    sys::exit(101)
}

/// Named by the unwinding tables of the core library; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// # Safety
/// As the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    let mut i = 0;
    while i < n {
        // SAFETY: the caller vouches for both ranges. Volatile, so that the
        // compiler does not turn the loop into a call of this very function.
        unsafe { to.add(i).write_volatile(*from.add(i)) };
        i += 1;
    }
    to
}

/// # Safety
/// As the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize) <= from as usize {
        // SAFETY: copying upwards never overtakes the source.
        return unsafe { memcpy(to, from, n) };
    }
    let mut i = n;
    while i > 0 {
        i -= 1;
        // SAFETY: the caller vouches for both ranges.
        unsafe { to.add(i).write_volatile(*from.add(i)) };
    }
    to
}

/// # Safety
/// As the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    let mut i = 0;
    while i < n {
        // SAFETY: the caller vouches for the range.
        unsafe { to.add(i).write_volatile(byte as u8) };
        i += 1;
    }
    to
}

/// # Safety
/// As the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut i = 0;
    while i < n {
        // SAFETY: the caller vouches for both ranges.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        i += 1;
    }
    0
}

/// # Safety
/// As the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, n) }
}

/// # Safety
/// As the C function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut n = 0;
    // SAFETY: the caller vouches for a NUL.
    while unsafe { text.add(n).read_volatile() } != 0 {
        n += 1;
    }
    n
}
