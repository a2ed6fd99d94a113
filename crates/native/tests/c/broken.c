/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A device that violates one rule, selected by its settings. The host reads its register 0. */
#include "riser_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct riser_device {
    char wrong[32];
    uint32_t token, answers;
    int asked, taken;
    uint8_t *word;
};

static riser_device *create(const char *settings, char *error, size_t error_bytes)
{
    if (!strcmp(settings, "refuse")) {
        snprintf(error, error_bytes, "no such device today");
        return NULL;
    }
    if (!strcmp(settings, "silent"))
        return NULL;
    riser_device *d = calloc(1, sizeof *d);
    snprintf(d->wrong, sizeof d->wrong, "%s", settings);
    d->word = calloc(1, 4);
    return d;
}

static void destroy(riser_device *d)
{
    free(d->word);
    free(d);
}

static int is(const riser_device *d, const char *wrong)
{
    return !strcmp(d->wrong, wrong);
}

static void reset(riser_device *d, uint64_t now, uint32_t kind)
{
    (void)d, (void)now, (void)kind;
}

static void on_read(riser_device *d, uint64_t now, const riser_read *r)
{
    (void)now;
    d->token = r->token;
    d->answers = is(d, "twice") ? 2 : 1;
    d->asked = d->taken = 1;
    if (is(d, "overflow"))
        d->word[r->length] = 1; /* for the sanitizer to find */
}

static void on_write(riser_device *d, uint64_t now, const riser_write *w)
{
    (void)d, (void)now, (void)w;
}

static void dma_done(riser_device *d, uint64_t now, const riser_dma_done *done)
{
    (void)d, (void)now, (void)done;
}

static void timer(riser_device *d, uint64_t now)
{
    (void)d, (void)now;
}

static uint64_t next_timer(const riser_device *d)
{
    return is(d, "timer") && d->asked ? 0 : RISER_NEVER;
}

static int poll_taken(riser_device *d, uint32_t *token)
{
    if (!d->taken)
        return 0;
    *token = is(d, "taken") ? d->token + 100 : d->token;
    d->taken = 0;
    return 1;
}

static int poll_output(riser_device *d, uint64_t now, uint32_t class_, riser_output *out)
{
    (void)now;
    if (!d->asked)
        return 0;
    if (class_ == RISER_NON_POSTED && (is(d, "id") || is(d, "huge"))) {
        out->kind = RISER_READ;
        out->as.read.address = 0x1000;
        out->as.read.length = is(d, "huge") ? 1u << 30 : 4;
        return 1;
    }
    if (class_ == RISER_POSTED && is(d, "class")) {
        out->kind = RISER_READ;
        return 1;
    }
    if (class_ == RISER_POSTED && is(d, "kind")) {
        out->kind = 77;
        return 1;
    }
    if (class_ == RISER_POSTED && is(d, "vector")) {
        out->kind = RISER_INTERRUPT;
        out->as.vector = 9;
        return 1;
    }
    if (class_ == RISER_POSTED && (is(d, "intx") || is(d, "pme"))) {
        out->kind = is(d, "intx") ? RISER_INTX : RISER_PME;
        return 1;
    }
    if (class_ == RISER_POSTED && is(d, "null")) {
        out->kind = RISER_SEND_MESSAGE;
        out->as.message.length = 4;
        return 1;
    }
    if (class_ == RISER_POSTED && (is(d, "long") || is(d, "route"))) {
        static const uint8_t data[8192];
        out->kind = RISER_SEND_MESSAGE;
        out->as.message.routing = is(d, "route") ? 255 : 0;
        out->as.message.length = is(d, "long") ? sizeof data : 0;
        out->as.message.data = data;
        return 1;
    }
    if (class_ == RISER_POSTED && is(d, "end")) {
        out->kind = RISER_WRITE;
        out->as.write.address = UINT64_MAX - 3;
        out->as.write.length = 8;
        return 1;
    }
    if (class_ == RISER_COMPLETION && is(d, "endless")) {
        /* Abandons the same request forever. */
        out->kind = RISER_ABANDON;
        out->as.token = d->token;
        return 1;
    }
    if (class_ != RISER_COMPLETION || !d->answers)
        return 0;
    d->answers--;
    out->kind = RISER_COMPLETE;
    out->as.completion.token = is(d, "token") ? d->token + 7 : d->token;
    out->as.completion.status = is(d, "status") ? 9 : is(d, "retry") ? RISER_RETRY : RISER_SUCCESS;
    out->as.completion.length = is(d, "length") ? 3 : 4;
    out->as.completion.data = d->word;
    return 1;
}

#ifndef ABI
#define ABI RISER_DEVICE_ABI
#endif

#ifdef MISSING
/* An undefined symbol, as if a dependency was not linked. */
extern uint32_t missing(void);
uint32_t calls(void) { return missing(); }
#endif

#ifndef NO_ENTRY
const riser_device_ops *riser_device_entry(uint32_t abi)
{
    static const riser_device_ops ops = {
        .abi = ABI,
        .size = sizeof ops,
        .create = create,
        .destroy = destroy,
        .reset = reset,
        .read = on_read,
#ifndef NO_WRITE
        .write = on_write,
#endif
        .dma_done = dma_done,
        .timer = timer,
        .next_timer = next_timer,
        .poll_output = poll_output,
        .poll_taken = poll_taken,
    };
    (void)on_write;
#ifdef NO_OPS
    (void)ops;
    return NULL;
#endif
    return abi ? &ops : NULL;
}
#endif
