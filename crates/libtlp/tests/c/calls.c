/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads calls of one context from standard input, one per line, and prints their results to
 * standard output.
 *   read ADDR COUNT | reada ADDR COUNT MRRS | write ADDR HEX | writea ADDR MPS HEX | strays
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libtlp.h>

#define BYTES 70000

static const char *name(int error)
{
	switch (error) {
	case ETIME: return "ETIME";
	case ECONNREFUSED: return "ECONNREFUSED";
	case EOPNOTSUPP: return "EOPNOTSUPP";
	case ECONNABORTED: return "ECONNABORTED";
	case EAGAIN: return "EAGAIN";
	case EBADMSG: return "EBADMSG";
	case EIO: return "EIO";
	case EINVAL: return "EINVAL";
	case EFAULT: return "EFAULT";
	default: return "?";
	}
}

static size_t unhex(const char *hex, unsigned char *out)
{
	size_t n = 0;
	unsigned byte;

	while (n < BYTES && sscanf(hex + 2 * n, "%2x", &byte) == 1)
		out[n++] = byte;
	return n;
}

static void answer(ssize_t got, const unsigned char *data)
{
	if (got < 0) {
		printf("-1 %s\n", name(errno));
	} else {
		printf("%zd", got);
		for (ssize_t n = 0; data && n < got; n++)
			printf(n ? "%02x" : " %02x", data[n]);
		printf("\n");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static char line[2 * BYTES + 64], hex[2 * BYTES + 64];
	struct nettlp nt;
	unsigned long addr, count, limit;

	if (argc < 5)
		return 2;
	memset(&nt, 0, sizeof(nt));
	inet_pton(AF_INET, argv[1], &nt.remote_addr);
	inet_pton(AF_INET, argv[2], &nt.local_addr);
	nt.requester = strtoul(argv[3], NULL, 16);
	nt.tag = strtoul(argv[4], NULL, 0);
	/* The direction is 0, as after memset. */
	answer(nettlp_init(&nt), NULL);
	while (fgets(line, sizeof(line), stdin)) {
		/* The buffer is exactly as large as requested, so that the sanitizer detects accesses beyond its end. */
		if (sscanf(line, "reada %lx %lu %lu", &addr, &count, &limit) == 3) {
			unsigned char *buf = malloc(count ? count : 1);
			answer(dma_read_aligned(&nt, addr, buf, count, limit), buf);
			free(buf);
		} else if (sscanf(line, "read %lx %lu", &addr, &count) == 2) {
			unsigned char *buf = malloc(count ? count : 1);
			answer(dma_read(&nt, addr, buf, count), buf);
			free(buf);
		} else if (sscanf(line, "writea %lx %lu %s", &addr, &limit, hex) == 3) {
			unsigned char *buf = malloc(strlen(hex) / 2);
			size_t len = unhex(hex, buf);
			answer(dma_write_aligned(&nt, addr, buf, len, limit), NULL);
			free(buf);
		} else if (sscanf(line, "write %lx %s", &addr, hex) == 2) {
			unsigned char *buf = malloc(strlen(hex) / 2);
			size_t len = unhex(hex, buf);
			answer(dma_write(&nt, addr, buf, len), NULL);
			free(buf);
		} else if (strncmp(line, "strays", 6) == 0) {
			answer((ssize_t)nettlp_strays(), NULL);
		} else if (strncmp(line, "reason", 6) == 0) {
			char text[512], cut[8];
			size_t len = nettlp_stray_reason(text, sizeof(text));

			if (nettlp_stray_reason(cut, sizeof(cut)) != len || strlen(cut) > 7 ||
			    nettlp_stray_reason(NULL, 0) != len)
				return 2;
			printf("%s\n", text);
			fflush(stdout);
		} else if (strncmp(line, "wrong", 5) == 0) {
			unsigned char byte = 0;
			struct nettlp other = nt;

			answer(dma_read(NULL, 0, &byte, 1), NULL);
			answer(dma_read(&nt, 0, NULL, 1), NULL);
			answer(dma_write(&nt, 0, NULL, 1), NULL);
			answer(dma_read(&nt, (uintptr_t)-2, &byte, 4), NULL);
			answer(dma_read_aligned(&nt, 0, &byte, 1, 3), NULL);
			answer(dma_read(&nt, 0, NULL, 0), NULL);
			answer(nettlp_run_cb(NULL, 1, NULL, NULL), NULL);
			answer(nettlp_run_cb(NULL, 17, NULL, NULL), NULL);
			answer(nettlp_init(NULL), NULL);
			other.dir = 7;
			answer(nettlp_init(&other), NULL);
		} else {
			return 2;
		}
	}
	return 0;
}
