/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A device that takes every kind of input. After a message with code 0x7e it has one output of each kind. */
#include "riser_device.h"

#include <stdlib.h>
#include <string.h>

#define MAX 16

struct riser_device {
    riser_completion answers[MAX];
    uint8_t bytes[MAX][16];
    unsigned first, count;
    uint64_t value; /* operand of atomics */
    unsigned posted, non_posted; /* outputs left to poll */
    uint8_t data[16];
    uint32_t done_status, done_length;
    uint64_t timer_at;
};

static riser_device *create(const char *settings, char *error, size_t error_bytes)
{
    (void)settings, (void)error, (void)error_bytes;
    riser_device *d = calloc(1, sizeof *d);
    d->timer_at = RISER_NEVER;
    return d;
}

static void destroy(riser_device *d)
{
    free(d);
}

static void answer(riser_device *d, uint32_t token, uint32_t status, const void *bytes, uint32_t length)
{
    unsigned at = (d->first + d->count++) % MAX;
    riser_completion c = {.token = token, .status = status, .length = length};
    memcpy(d->bytes[at], bytes, length);
    d->answers[at] = c;
}

static void reset(riser_device *d, uint64_t now, uint32_t kind)
{
    (void)now;
    d->value = 100 + kind;
}

static void on_read(riser_device *d, uint64_t now, const riser_read *r)
{
    (void)now;
    /* Status and length of the last DMA. */
    uint32_t words[2] = {d->done_status, d->done_length};
    answer(d, r->token, RISER_SUCCESS, words, r->length);
}

static void on_write(riser_device *d, uint64_t now, const riser_write *w)
{
    if (w->flags & RISER_WRITE_NON_POSTED)
        answer(d, w->token, w->flags & RISER_WRITE_DEFERRABLE ? RISER_RETRY : RISER_SUCCESS, "", 0);
    else if (w->enables && !w->enables[1])
        d->timer_at = now + w->data[0];
}

static void on_dma_done(riser_device *d, uint64_t now, const riser_dma_done *done)
{
    (void)now;
    d->done_status = done->status;
    d->done_length = done->length + done->id;
}

static void on_atomic(riser_device *d, uint64_t now, const riser_atomic *a)
{
    (void)now;
    uint64_t operand = 0, old = d->value;
    memcpy(&operand, a->operands, a->value_bytes);
    if (a->op == RISER_FETCH_ADD)
        d->value += operand;
    answer(d, a->token, RISER_SUCCESS, &old, a->value_bytes);
}

static void on_config(riser_device *d, uint64_t now, const riser_config *c)
{
    (void)now;
    uint32_t value = (uint32_t)c->register_dw << 16 | c->byte_enables;
    answer(d, c->token, RISER_SUCCESS, &value, c->is_write ? 0 : 4);
}

static void on_message(riser_device *d, uint64_t now, const riser_message *m)
{
    (void)now;
    if (m->code == 0x7e && m->header[7] == 7 && m->requester == 0x100) {
        d->posted = 5;
        d->non_posted = 2;
        memcpy(d->data, m->data, m->length);
    }
}

static void on_timer(riser_device *d, uint64_t now)
{
    if (now >= d->timer_at) {
        d->timer_at = RISER_NEVER;
        d->posted = 1;
    }
}

static uint64_t next_timer(const riser_device *d)
{
    return d->timer_at;
}

static int posted(riser_device *d, riser_output *out)
{
    switch (d->posted) {
    case 5:
        out->kind = RISER_WRITE;
        out->as.write.address = 0x1000;
        out->as.write.length = 4;
        out->as.write.tc = 3;
        out->as.write.attr = RISER_RELAXED_ORDERING;
        out->as.write.data = d->data;
        break;
    case 4:
        out->kind = RISER_INTX;
        out->as.asserted = 1;
        break;
    case 3:
        out->kind = RISER_PME;
        break;
    case 2:
        out->kind = RISER_SEND_MESSAGE;
        out->as.message.routing = 0;
        out->as.message.code = 0x7f;
        out->as.message.length = 4;
        out->as.message.header[0] = 9;
        out->as.message.data = d->data;
        break;
    case 1:
        out->kind = RISER_INTERRUPT;
        out->as.vector = 1;
        break;
    default:
        return 0;
    }
    d->posted--;
    return 1;
}

static int non_posted(riser_device *d, riser_output *out)
{
    switch (d->non_posted) {
    case 2:
        out->kind = RISER_READ;
        out->as.read.address = 0x2000;
        out->as.read.id = 5;
        out->as.read.length = 64;
        out->as.read.counted = 1;
        break;
    case 1:
        out->kind = RISER_ATOMIC;
        out->as.atomic.address = 0x3000;
        out->as.atomic.id = 6;
        out->as.atomic.op = RISER_COMPARE_SWAP;
        out->as.atomic.length = 8;
        out->as.atomic.operands = d->data;
        break;
    default:
        return 0;
    }
    d->non_posted--;
    return 1;
}

static int poll_output(riser_device *d, uint64_t now, uint32_t class_, riser_output *out)
{
    (void)now;
    if (class_ == RISER_POSTED)
        return posted(d, out);
    if (class_ == RISER_NON_POSTED)
        return non_posted(d, out);
    if (!d->count)
        return 0;
    out->kind = RISER_COMPLETE;
    out->as.completion = d->answers[d->first];
    out->as.completion.data = d->bytes[d->first];
    d->first = (d->first + 1) % MAX;
    d->count--;
    return 1;
}

const riser_device_ops *riser_device_entry(uint32_t abi)
{
    static const riser_device_ops ops = {
        .abi = RISER_DEVICE_ABI,
        .size = sizeof ops,
        .create = create,
        .destroy = destroy,
        .reset = reset,
        .read = on_read,
        .write = on_write,
        .dma_done = on_dma_done,
        .atomic = on_atomic,
        .config = on_config,
        .message = on_message,
        .timer = on_timer,
        .next_timer = next_timer,
        .poll_output = poll_output,
    };
    return abi == RISER_DEVICE_ABI ? &ops : NULL;
}
