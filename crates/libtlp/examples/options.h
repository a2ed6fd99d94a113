/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Command-line options of all examples. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	struct in_addr remote, local;
	unsigned requester; /* bus << 8 | device << 3 | function */
	unsigned tag;
	unsigned long addr;
	unsigned long size;
	const char *data;
	const char *interface;
};

#define OPTIONS_HELP \
	"  -r ADDRESS  the adapter\n" \
	"  -l ADDRESS  this host (any of its addresses)\n" \
	"  -b BB:DD.F  requester id, hexadecimal (00:00.0)\n" \
	"  -t TAG      tag, 0 to 255 (0)\n" \
	"  -a ADDRESS  address, hexadecimal (0)\n" \
	"  -s SIZE     bytes (4)\n" \
	"  -d TEXT     data to be written\n" \
	"  -i NAME     network interface\n"

/* Reads all options. Ends the program with status 2 if one is invalid. */
static inline void read_options(struct options *o, int argc, char **argv, const char *what)
{
	unsigned bus = 0, device = 0, function = 0;
	int ch, ok = 1;

	memset(o, 0, sizeof(*o));
	o->size = 4;
	while ((ch = getopt(argc, argv, "r:l:b:t:a:s:d:i:h")) != -1) {
		switch (ch) {
		case 'r': ok = ok && inet_pton(AF_INET, optarg, &o->remote) == 1; break;
		case 'l': ok = ok && inet_pton(AF_INET, optarg, &o->local) == 1; break;
		case 'b': ok = ok && sscanf(optarg, "%x:%x.%x", &bus, &device, &function) >= 2; break;
		case 't': o->tag = strtoul(optarg, NULL, 0); break;
		case 'a': o->addr = strtoul(optarg, NULL, 16); break;
		case 's': o->size = strtoul(optarg, NULL, 0); break;
		case 'd': o->data = optarg; break;
		case 'i': o->interface = optarg; break;
		default: ok = 0;
		}
	}
	ok = ok && o->remote.s_addr != 0 && o->tag < 256 && bus < 256 && device < 32 && function < 8;
	if (!ok) {
		fprintf(stderr, "%s: %s\n\n" OPTIONS_HELP, argv[0], what);
		exit(2);
	}
	o->requester = bus << 8 | device << 3 | function;
}

#endif
