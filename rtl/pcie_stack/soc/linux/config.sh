#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds the kernel: config.sh TREE OUT. TREE is the unpacked source of Linux 6.1; OUT gets Image, with the first program and its device node in an
# initramfs. The driver of the root complex's MSIs is compiled into it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$1 out=$2
cross=riscv64-linux-gnu-
mkdir -p "$out"
"${cross}gcc" -O2 -Wall -Wextra -march=rv64imac -mabi=lp64 -mno-relax -static -nostdlib -ffreestanding "$here/init.c" -o "$out/init"
printf 'dir /dev 0755 0 0\nnod /dev/console 0600 0 0 c 5 1\nfile /init %s 0755 0 0\n' "$out/init" >"$out/initramfs.txt"
cp "$here/irq-riser-root-complex.c" "$tree/drivers/irqchip/"
grep -q riser "$tree/drivers/irqchip/Makefile" || echo 'obj-y += irq-riser-root-complex.o' >>"$tree/drivers/irqchip/Makefile"
build() { make -s -C "$tree" O="$out/kernel" ARCH=riscv CROSS_COMPILE="$cross" "$@"; }
build tinyconfig
# shellcheck disable=SC2046
"$tree/scripts/config" --file "$out/kernel/.config" $(printf ' -d %s' FPU EFI VT INPUT SERIO UNIX98_PTYS \
    LEGACY_PTYS SLOB HZ_250 RD_BZIP2 RD_LZMA RD_XZ RD_LZO RD_LZ4 RD_ZSTD) $(printf ' -e %s' 64BIT ARCH_RV64I MMU RISCV_ISA_C PRINTK PRINTK_TIME TTY RISCV_SBI RISCV_SBI_V01 \
    SERIAL_EARLYCON SERIAL_EARLYCON_RISCV_SBI SERIAL_8250 SERIAL_8250_CONSOLE SERIAL_OF_PLATFORM SOC_VIRT SIFIVE_PLIC PCI PCI_MSI PCI_HOST_GENERIC PCIEPORTBUS PCIEAER \
    PCI_QUIRKS PCI_ENDPOINT_TEST BLK_DEV_INITRD BINFMT_ELF PROC_FS SYSFS MULTIUSER DEVTMPFS HZ_100 SLUB CRYPTO CRYPTO_MANAGER_DISABLE_TESTS) --set-str INITRAMFS_SOURCE "$out/initramfs.txt"
# CRYPTO is only there so that the self-test of BLAKE2s, 8.5 million instructions, can be left out.
build olddefconfig
build -j"$(nproc)" Image
cp "$out/kernel/arch/riscv/boot/Image" "$out/Image"
