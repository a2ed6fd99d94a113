// SPDX-License-Identifier: Apache-2.0 OR MIT
// A bare vfio-user server: a device with one BAR of 4 KiB. Reads return the last written value, and there are no other functions. The cost of
// an access here is the cost of QEMU, two processes and a socket. Trusts its client; for measurements only.
//
//   echo SOCKET

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REGIONS 9
#define CONFIG 7
#define PAGE 4096
#define NO_REPLY 0x10
#define REPLY 1

enum { VERSION = 1, GET_INFO = 4, REGION_INFO = 5, IRQ_INFO = 7, READ = 9, WRITE = 10 };

struct header {
	uint16_t id, command;
	uint32_t size, flags, error;
};

static uint8_t regions[REGIONS][PAGE] = { [CONFIG] = { 0x34, 0x12, 0x78, 0x56, [11] = 0xff } };

static int receive(int peer, void *to, size_t bytes)
{
	for (size_t n = 0; n < bytes;) {
		ssize_t more = recv(peer, (char *)to + n, bytes - n, 0);

		if (more <= 0)
			return 0;
		n += more;
	}
	return 1;
}

static uint64_t region_bytes(uint32_t n)
{
	return n == 0 ? PAGE : n == CONFIG ? 256 : 0;
}

// Returns the number of bytes of the reply after its header. `body` holds the request's body, and then the reply's.
static size_t answer(uint16_t command, uint8_t *body, size_t bytes)
{
	uint32_t words[4];
	uint64_t offset, size;

	memcpy(words, body, sizeof(words));
	memcpy(&offset, body, sizeof(offset));
	switch (command) {
	case VERSION:
		return bytes;
	case GET_INFO: {
		uint32_t info[4] = { 16, 3, REGIONS, 5 };

		memcpy(body, info, sizeof(info));
		return sizeof(info);
	}
	case REGION_INFO: {
		uint32_t index = words[2];
		uint32_t info[4] = { 32, region_bytes(index) ? 3 : 0, index, 0 };

		size = region_bytes(index);
		memset(body, 0, 32);
		memcpy(body, info, sizeof(info));
		memcpy(body + 16, &size, sizeof(size));
		return 32;
	}
	case IRQ_INFO:
		words[1] = 1;
		words[3] = 0;
		memcpy(body, words, sizeof(words));
		return sizeof(words);
	case READ:
		memcpy(body + 16, &regions[words[2]][offset % PAGE], words[3]);
		return 16 + words[3];
	case WRITE:
		memcpy(&regions[words[2]][offset % PAGE], body + 16, words[3]);
		return 16;
	default:
		return 0;
	}
}

int main(int argc, char **argv)
{
	static uint8_t message[sizeof(struct header) + (1 << 20)];
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int server = socket(AF_UNIX, SOCK_STREAM, 0);
	struct header *header = (struct header *)message;

	if (argc != 2)
		return 2;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
	if (bind(server, (struct sockaddr *)&address, sizeof(address)) || listen(server, 1))
		return 1;
	int peer = accept(server, NULL, NULL);

	while (receive(peer, header, sizeof(*header)) && header->size <= sizeof(message) &&
	       receive(peer, header + 1, header->size - sizeof(*header))) {
		size_t bytes = answer(header->command, (uint8_t *)(header + 1), header->size - sizeof(*header));

		if (header->flags & NO_REPLY)
			continue;
		header->size = sizeof(*header) + bytes;
		header->flags = REPLY;
		header->error = 0;
		if (send(peer, message, header->size, MSG_NOSIGNAL) < 0)
			break;
	}
	return 0;
}
