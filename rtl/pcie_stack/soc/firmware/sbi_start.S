# SPDX-License-Identifier: Apache-2.0 OR MIT
# Machine mode below a kernel: entry, and traps with all registers in a frame on a stack of their own.
    .section .text.start
    .globl _start
_start:
    la sp, stack_top
    la t0, trap_entry
    csrw mtvec, t0
    call main
    la t0, stack_top
    csrw mscratch, t0
    mv a1, a0
    li a0, 0
    mret

    .balign 4
trap_entry:
    csrrw sp, mscratch, sp
    addi sp, sp, -256
    .irp n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\n, 8*\n(sp)
    .endr
    mv a0, sp
    call trap
    .irp n, 1,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    ld x\n, 8*\n(sp)
    .endr
    addi sp, sp, 256
    csrrw sp, mscratch, sp
    mret
