//! A firmware of 64 KiB that does what every guest of today does first: it maps
//! some memory, switches the cpu to 64 bits and computes a sum there. If the
//! sum is right it prints that, then switches the machine off.
//!
//! ```text
//! start:  cli                             ; 16 bits, at F000:FF00
//!         xor   ax, ax
//!         mov   ds, ax
//!         mov   dword [0x1000], 0x2003    ; page tables: the first
//!         mov   dword [0x2000], 0x3003    ; 2 MiB, each address itself
//!         mov   dword [0x3000], 0x0083
//!         lgdt  cs:[gdtr]
//!         mov   eax, 0x1000
//!         mov   cr3, eax
//!         mov   al, 0x20                  ; PAE
//!         movzx eax, al
//!         mov   cr4, eax
//!         mov   ecx, 0xC0000080           ; EFER
//!         rdmsr
//!         or    ax, 0x100                 ; long mode
//!         wrmsr
//!         mov   eax, cr0
//!         or    eax, 0x80000001           ; paging and protection
//!         mov   cr0, eax
//!         jmp   8:long
//! long:   mov   esp, 0x8000               ; 64 bits
//!         xor   edx, edx
//!         mov   ecx, 100000
//! next:   add   rdx, rcx                  ; 1 + 2 + … + 100000
//!         push  rdx                       ; through memory
//!         pop   rbx
//!         loop  next
//!         mov   rax, 5000050000
//!         mov   cl, 'K'
//!         cmp   rbx, rax
//!         je    say
//!         mov   cl, '?'
//! say:    mov   al, cl
//!         out   0xE9, al                  ; isa-debugcon
//!         mov   al, 0x10
//!         out   0xF4, al                  ; isa-debug-exit
//! stay:   hlt
//!         jmp   stay
//! gdt:    dq    0, 0x00209A0000000000     ; nothing; 64-bit code
//! gdtr:   dw    15, gdt
//! ```

use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::{MemfdFlags, memfd_create};

/// The device the firmware writes to.
pub(super) const SAYS: &str = "isa-debugcon,iobase=0xe9,chardev=said";
/// The device it ends QEMU with.
pub(super) const ENDS: &str = "isa-debug-exit,iobase=0xf4,iosize=4";
/// What it prints when all went well.
pub(super) const SAID: &str = "K";

const SIZE: usize = 64 << 10;
/// Where the code is.
const START: usize = 0xff00;
/// Where a cpu begins: 16 bytes below the end.
const RESET: usize = 0xfff0;
/// jmp F000:FF00
const JUMP: [u8; 5] = [0xea, 0x00, 0xff, 0x00, 0xf0];
const HLT: u8 = 0xf4;

#[rustfmt::skip]
const CODE: [u8; 166] = [
    0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x66, 0xc7, 0x06, 0x00, 0x10, 0x03, 0x20,
    0x00, 0x00, 0x66, 0xc7, 0x06, 0x00, 0x20, 0x03, 0x30, 0x00, 0x00, 0x66,
    0xc7, 0x06, 0x00, 0x30, 0x83, 0x00, 0x00, 0x00, 0x2e, 0x66, 0x0f, 0x01,
    0x16, 0xa0, 0xff, 0x66, 0xb8, 0x00, 0x10, 0x00, 0x00, 0x0f, 0x22, 0xd8,
    0xb0, 0x20, 0x66, 0x0f, 0xb6, 0xc0, 0x0f, 0x22, 0xe0, 0x66, 0xb9, 0x80,
    0x00, 0x00, 0xc0, 0x0f, 0x32, 0x0d, 0x00, 0x01, 0x0f, 0x30, 0x0f, 0x20,
    0xc0, 0x66, 0x0d, 0x01, 0x00, 0x00, 0x80, 0x0f, 0x22, 0xc0, 0x66, 0xea,
    0x5a, 0xff, 0x0f, 0x00, 0x08, 0x00, 0xbc, 0x00, 0x80, 0x00, 0x00, 0x31,
    0xd2, 0xb9, 0xa0, 0x86, 0x01, 0x00, 0x48, 0x01, 0xca, 0x52, 0x5b, 0xe2,
    0xf9, 0x48, 0xb8, 0x50, 0xb5, 0x06, 0x2a, 0x01, 0x00, 0x00, 0x00, 0xb1,
    0x4b, 0x48, 0x39, 0xc3, 0x74, 0x02, 0xb1, 0x3f, 0x88, 0xc8, 0xe6, 0xe9,
    0xb0, 0x10, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd, 0x0f, 0x1f, 0x44, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x9a, 0x20, 0x00, 0x0f, 0x00, 0x90, 0xff, 0x0f, 0x00,
];

/// The firmware as a file without a name.
pub(super) fn image() -> io::Result<File> {
    let mut bytes = vec![HLT; SIZE];
    bytes[START..START + CODE.len()].copy_from_slice(&CODE);
    bytes[RESET..RESET + JUMP.len()].copy_from_slice(&JUMP);
    let mut file = File::from(memfd_create("firmware", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    Ok(file)
}
