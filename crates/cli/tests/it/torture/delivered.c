// SPDX-License-Identifier: Apache-2.0 OR MIT
// delivered serve: accepts one connection on port 7000, and checks each received byte.
// delivered send ADDRESS: sends BYTES there, and waits until they have been checked.
// Exit status: 0 if all bytes arrived; 65 if a received byte differs from the sent one; 1 if the connection failed before.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PORT 7000
#define BYTES 2000000
#define PATIENCE_S 20
#define LOST 65

static unsigned char bytes[BYTES], came[BYTES];

static void fill(void) {
    uint32_t state = 1;
    for (int n = 0; n < BYTES; n++) {
        state = state * 1664525 + 1013904223;
        bytes[n] = (unsigned char)(state >> 24);
    }
}

static int failed(const char *what) {
    perror(what);
    return 1;
}

static void be_patient(int fd) {
    struct timeval patience = {.tv_sec = PATIENCE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static int serve(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    be_patient(listener);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1)) return failed("listen");
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return failed("accept");
    be_patient(fd);
    int done = 0;
    while (done < BYTES) {
        ssize_t got = recv(fd, came + done, BYTES - done, 0);
        if (got <= 0) return failed("recv");
        if (memcmp(came + done, bytes + done, got)) {
            printf("received bytes differ from sent ones, in %zd from %d on\n", got, done);
            return LOST;
        }
        done += got;
    }
    return send(fd, "k", 1, MSG_NOSIGNAL) == 1 ? 0 : failed("send");
}

static int send_all(const char *address) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    be_patient(fd);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) return failed(address);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) return failed("connect");
    for (int done = 0; done < BYTES;) {
        ssize_t sent = send(fd, bytes + done, BYTES - done, MSG_NOSIGNAL);
        if (sent <= 0) return failed("send");
        done += sent;
    }
    char answer;
    return recv(fd, &answer, 1, 0) == 1 ? 0 : failed("recv");
}

int main(int argc, char **argv) {
    fill();
    if (argc == 2 && !strcmp(argv[1], "serve")) return serve();
    if (argc == 3 && !strcmp(argv[1], "send")) return send_all(argv[2]);
    fprintf(stderr, "delivered: `serve` and `send ADDRESS` are legal\n");
    return 2;
}
