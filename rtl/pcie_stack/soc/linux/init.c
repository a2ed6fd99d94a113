// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The first program of the kernel, without a C library. It runs the tests of the kernel's driver pci_endpoint_test. Then it prints the PCI functions, their
 * configuration space and the interrupts, and turns the machine off.
 */
#define AT_FDCWD (-100)
#define BUFFER 8192

enum { IOCTL = 29, MKDIRAT = 34, MOUNT = 40, OPENAT = 56, CLOSE = 57, GETDENTS = 61, LSEEK = 62, READ = 63, WRITE = 64, REBOOT = 142 };

static unsigned char buffer[BUFFER], bytes[4096];

static long call(long number, long a, long b, long c, long d, long e)
{
	register long a0 asm("a0") = a;
	register long a1 asm("a1") = b;
	register long a2 asm("a2") = c;
	register long a3 asm("a3") = d;
	register long a4 asm("a4") = e;
	register long a7 asm("a7") = number;

	asm volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a7) : "memory");
	return a0;
}

void *memset(void *to, int value, unsigned long size)
{
	for (unsigned char *at = to; size--; at++)
		*at = value;
	return to;
}

static char line[256];
static unsigned int filled;

static void flush(void)
{
	call(WRITE, 1, (long)line, filled, 0, 0);
	filled = 0;
}

static void put(char c)
{
	line[filled++] = c;
	if (c == '\n' || filled == sizeof(line))
		flush();
}

static void print(const char *text)
{
	while (*text)
		put(*text++);
}

static void hex(unsigned long value, int digits)
{
	while (digits--)
		put("0123456789abcdef"[value >> 4 * digits & 15]);
}

static void decimal(long value)
{
	if (value < 0) {
		put('-');
		value = -value;
	}
	if (value >= 10)
		decimal(value / 10);
	put('0' + value % 10);
}

static int open_file(const char *path)
{
	return call(OPENAT, AT_FDCWD, (long)path, 2, 0, 0);
}

static char *append(char *to, const char *text)
{
	while (*text)
		*to++ = *text++;
	*to = 0;
	return to;
}

static long read_file(const char *path, void *to, long size)
{
	long fd = call(OPENAT, AT_FDCWD, (long)path, 0, 0, 0), got = 0, n;

	if (fd < 0)
		return fd;
	while (got < size && (n = call(READ, fd, (long)to + got, size - got, 0, 0)) > 0)
		got += n;
	call(CLOSE, fd, 0, 0, 0, 0);
	return got;
}

/* In the format of `lspci -xxxx`, without lines of zeros. */
static void dump(const char *function)
{
	char path[128];
	long size;

	append(append(append(path, "/sys/bus/pci/devices/"), function), "/config");
	size = read_file(path, bytes, sizeof(bytes));
	print("config ");
	print(function);
	put(' ');
	decimal(size);
	put('\n');
	for (long at = 0; at + 16 <= size; at += 16) {
		int any = 0;

		for (int n = 0; n < 16; n++)
			any |= bytes[at + n];
		if (!any)
			continue;
		hex(at, at < 256 ? 2 : 3);
		put(':');
		for (int n = 0; n < 16; n++) {
			put(' ');
			hex(bytes[at + n], 2);
		}
		put('\n');
	}
}

static void functions(void)
{
	static char names[8][16];
	int count = 0, fd = call(OPENAT, AT_FDCWD, (long)"/sys/bus/pci/devices", 0200000, 0, 0);
	long size;

	while ((size = call(GETDENTS, fd, (long)buffer, BUFFER, 0, 0)) > 0)
		for (long at = 0; at < size; at += *(unsigned short *)(buffer + at + 16))
			if (buffer[at + 19] != '.' && count < 8)
				append(names[count++], (char *)buffer + at + 19);
	call(CLOSE, fd, 0, 0, 0, 0);
	print("functions ");
	decimal(count);
	put('\n');
	for (int n = count; n--;)
		dump(names[n]);
}

static void test(int fd, const char *name, long command, long argument)
{
	print(name);
	print(": ");
	decimal(call(IOCTL, fd, command, argument, 0, 0));
	put('\n');
}

/* A transfer for the driver (include/uapi/linux/pcitest.h). Flag 0 asks for the device's DMA engine. */
struct transfer {
	unsigned long size;
	unsigned char flags;
};

static void transfer(int fd, const char *name, int number, unsigned long size)
{
	struct transfer asked = { size, 0 };

	print(name);
	put(' ');
	decimal(size);
	print(": ");
	decimal(call(IOCTL, fd, 0x40000000 | 8 << 16 | 'P' << 8 | number, (long)&asked, 0, 0));
	put('\n');
}

static void interrupts(void)
{
	long size = read_file("/proc/interrupts", buffer, BUFFER - 1);

	buffer[size < 0 ? 0 : size] = 0;
	print((char *)buffer);
}

void _start(void)
{
	int fd;

	print("init: first program\n");
	call(MKDIRAT, AT_FDCWD, (long)"/proc", 0755, 0, 0);
	call(MKDIRAT, AT_FDCWD, (long)"/sys", 0755, 0, 0);
	call(MOUNT, (long)"proc", (long)"/proc", (long)"proc", 0, 0);
	call(MOUNT, (long)"sysfs", (long)"/sys", (long)"sysfs", 0, 0);
	call(MOUNT, (long)"devtmpfs", (long)"/dev", (long)"devtmpfs", 0, 0);
	fd = open_file("/dev/pci-endpoint-test.0");
	if (fd >= 0) {
		test(fd, "BAR 0", 'P' << 8 | 1, 0);
		test(fd, "MSI 1", 0x40000000 | 4 << 16 | 'P' << 8 | 3, 1);
		for (unsigned long size = 1; size <= 8192; size = size * 16 > 8192 && size < 8192 ? 8192 : size * 16) {
			transfer(fd, "device reads", 4, size);
			transfer(fd, "device writes", 5, size);
			transfer(fd, "device copies", 6, size);
		}
		call(CLOSE, fd, 0, 0, 0, 0);
	} else {
		print("no /dev/pci-endpoint-test.0\n");
	}
	functions();
	interrupts();
	print("init: end\n");
	call(REBOOT, 0xfee1dead, 672274793, 0x4321fedc, 0, 0);
	for (;;)
		;
}
