/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A scrambler: reads host memory by DMA, XORs every byte with a key, writes the result elsewhere, and raises an interrupt.
 *
 * Registers, little-endian, in BAR 0:
 *   +0x00 u64 source   +0x08 u64 destination   +0x10 u32 bytes, 1 to 65536
 *   +0x14 u32 key      +0x18 u32 doorbell      +0x1c u32 status: 0 idle, 1 busy, 2 done, 3 failed
 *
 * Settings: piece=N, bytes of each read, 1 to 4096.
 */
#include "riser_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGISTER_BYTES 32
#define MAX_BYTES 65536
#define MAX_ANSWERS 64

enum { IDLE, BUSY, DONE, FAILED };

struct answer {
    uint32_t token;
    uint32_t status;
    uint32_t length;
    uint8_t data[REGISTER_BYTES];
};

struct riser_device {
    uint8_t registers[REGISTER_BYTES];
    uint32_t piece;
    /*
     * The running transfer: its length, copied since the host may change the register, and the bytes requested, received and
     * written.
     */
    uint32_t bytes, asked, come, left;
    int read_under_way, interrupt_due;
    uint8_t *data;
    /* Completions that wait to be polled. */
    struct answer answers[MAX_ANSWERS];
    uint32_t first, count;
};

static uint32_t get32(const riser_device *d, size_t at)
{
    uint32_t value;
    memcpy(&value, d->registers + at, sizeof value);
    return value;
}

static uint64_t get64(const riser_device *d, size_t at)
{
    uint64_t value;
    memcpy(&value, d->registers + at, sizeof value);
    return value;
}

static void set32(riser_device *d, size_t at, uint32_t value)
{
    memcpy(d->registers + at, &value, sizeof value);
}

static riser_device *create(const char *settings, char *error, size_t error_bytes)
{
    unsigned piece = 512;
    if (settings[0] && (sscanf(settings, "piece=%u", &piece) != 1 || piece < 1 || piece > 4096)) {
        snprintf(error, error_bytes, "settings `%s`, expected piece=1 to piece=4096", settings);
        return NULL;
    }
    riser_device *d = calloc(1, sizeof *d);
    uint8_t *data = malloc(MAX_BYTES);
    if (!d || !data) {
        free(d);
        free(data);
        snprintf(error, error_bytes, "no memory");
        return NULL;
    }
    d->piece = piece;
    d->data = data;
    return d;
}

static void destroy(riser_device *d)
{
    free(d->data);
    free(d);
}

static void reset(riser_device *d, uint64_t now_ps, uint32_t kind)
{
    (void)now_ps;
    (void)kind;
    memset(d->registers, 0, sizeof d->registers);
    d->bytes = d->asked = d->come = d->left = 0;
    d->read_under_way = d->interrupt_due = 0;
    d->count = 0;
}

static void read_register(riser_device *d, uint64_t now_ps, const riser_read *r)
{
    (void)now_ps;
    /* The front end's credits limit the number of waiting requests to less than MAX_ANSWERS. */
    struct answer *a = &d->answers[(d->first + d->count++) % MAX_ANSWERS];
    a->token = r->token;
    a->status = RISER_UNSUPPORTED_REQUEST;
    a->length = 0;
    if (r->offset <= REGISTER_BYTES && r->length <= REGISTER_BYTES - r->offset) {
        a->status = RISER_SUCCESS;
        a->length = r->length;
        memcpy(a->data, d->registers + r->offset, r->length);
    }
}

static void write_register(riser_device *d, uint64_t now_ps, const riser_write *w)
{
    (void)now_ps;
    for (uint32_t n = 0; w->data && n < w->length && w->offset + n < 0x1c; n++)
        if (!w->enables || w->enables[n])
            d->registers[w->offset + n] = w->data[n];
    if (w->offset == 0x18 && get32(d, 0x1c) != BUSY) {
        uint32_t bytes = get32(d, 0x10);
        d->asked = d->come = d->left = 0;
        int legal = bytes > 0 && bytes <= MAX_BYTES;
        d->bytes = legal ? bytes : 0;
        set32(d, 0x1c, legal ? BUSY : FAILED);
        d->interrupt_due = !legal;
    }
}

static void dma_done(riser_device *d, uint64_t now_ps, const riser_dma_done *done)
{
    (void)now_ps;
    d->read_under_way = 0;
    if (done->status || !done->data) {
        set32(d, 0x1c, FAILED);
        d->interrupt_due = 1;
        return;
    }
    uint8_t key = (uint8_t)get32(d, 0x14);
    for (uint32_t n = 0; n < done->length; n++)
        d->data[d->come + n] = done->data[n] ^ key;
    d->come += done->length;
}

static int poll_posted(riser_device *d, riser_output *out)
{
    if (d->left < d->come) {
        out->kind = RISER_WRITE;
        out->as.write.address = get64(d, 0x08) + d->left;
        out->as.write.length = d->come - d->left;
        out->as.write.data = d->data + d->left;
        d->left = d->come;
        if (d->left == d->bytes) {
            /* The interrupt is sent after the last write, and cannot pass this write. */
            set32(d, 0x1c, DONE);
            d->interrupt_due = 1;
        }
        return 1;
    }
    if (d->interrupt_due) {
        d->interrupt_due = 0;
        out->kind = RISER_INTERRUPT;
        out->as.vector = 0;
        return 1;
    }
    return 0;
}

static int poll_non_posted(riser_device *d, riser_output *out)
{
    if (get32(d, 0x1c) != BUSY || d->read_under_way || d->asked >= d->bytes)
        return 0;
    uint32_t length = d->bytes - d->asked < d->piece ? d->bytes - d->asked : d->piece;
    out->kind = RISER_READ;
    out->as.read.address = get64(d, 0x00) + d->asked;
    out->as.read.id = 0;
    out->as.read.length = length;
    d->asked += length;
    d->read_under_way = 1;
    return 1;
}

static int poll_completion(riser_device *d, riser_output *out)
{
    if (!d->count)
        return 0;
    const struct answer *a = &d->answers[d->first];
    out->kind = RISER_COMPLETE;
    out->as.completion.token = a->token;
    out->as.completion.status = a->status;
    out->as.completion.length = a->length;
    out->as.completion.data = a->data;
    d->first = (d->first + 1) % MAX_ANSWERS;
    d->count--;
    return 1;
}

static int poll_output(riser_device *d, uint64_t now_ps, uint32_t class_, riser_output *out)
{
    (void)now_ps;
    switch (class_) {
    case RISER_POSTED:
        return poll_posted(d, out);
    case RISER_NON_POSTED:
        return poll_non_posted(d, out);
    default:
        return poll_completion(d, out);
    }
}

const riser_device_ops *riser_device_entry(uint32_t abi)
{
    static const riser_device_ops ops = {
        .abi = RISER_DEVICE_ABI,
        .size = sizeof ops,
        .create = create,
        .destroy = destroy,
        .reset = reset,
        .read = read_register,
        .write = write_register,
        .dma_done = dma_done,
        .poll_output = poll_output,
    };
    return abi == RISER_DEVICE_ABI ? &ops : NULL;
}
