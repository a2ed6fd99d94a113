// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A histogram. It reads host memory by up to 8 concurrent DMA reads and counts how often each byte value occurs. That takes
// 1 us. Then it writes the 256 counts by DMA and raises an interrupt.
//
// Registers, little-endian, in BAR 0:
//   +0x00 u64 source   +0x08 u64 destination of 1 KiB   +0x10 u32 bytes   +0x14 u32 doorbell
//   +0x18 u32 status: 0 idle, 1 busy, 2 done, 3 failed
#include "riser_device.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <vector>

namespace {

constexpr std::uint64_t work_ps = 1'000'000;
constexpr std::uint32_t piece = 256;
constexpr std::size_t in_flight = 8;

enum status : std::uint32_t { idle, busy, done, failed };

} // namespace

struct riser_device {
    struct registers {
        std::uint64_t source, destination;
        std::uint32_t bytes, doorbell, status, reserved;
    } regs{};
    std::uint32_t asked = 0, come = 0;
    std::set<std::uint32_t> reads;
    std::array<std::uint32_t, 256> counts{};
    std::uint64_t ready_at = RISER_NEVER;
    bool write_due = false, interrupt_due = false;
    std::deque<std::uint32_t> taken;
    // Completions that wait, and the data of the last one that was polled, which the link may not have copied yet.
    std::deque<std::pair<riser_completion, std::vector<std::uint8_t>>> answers;
    std::vector<std::uint8_t> leaving;

    void reset()
    {
        *this = riser_device{};
    }

    void read(const riser_read &r)
    {
        taken.push_back(r.token);
        riser_completion c{};
        c.token = r.token;
        std::vector<std::uint8_t> bytes;
        if (r.offset <= sizeof regs && r.length <= sizeof regs - r.offset) {
            bytes.resize(r.length);
            std::memcpy(bytes.data(), reinterpret_cast<const std::uint8_t *>(&regs) + r.offset, r.length);
            c.length = r.length;
        } else {
            c.status = RISER_UNSUPPORTED_REQUEST;
        }
        answers.emplace_back(c, std::move(bytes));
    }

    void write(const riser_write &w)
    {
        taken.push_back(w.token);
        auto *all = reinterpret_cast<std::uint8_t *>(&regs);
        for (std::uint32_t n = 0; w.data && n < w.length && w.offset + n < offsetof(registers, status); n++)
            if (!w.enables || w.enables[n])
                all[w.offset + n] = w.data[n];
        if (w.offset == offsetof(registers, doorbell) && regs.status != busy) {
            asked = come = 0;
            counts.fill(0);
            regs.status = regs.bytes ? busy : failed;
            interrupt_due = !regs.bytes;
        }
    }

    void dma_done(std::uint64_t now_ps, const riser_dma_done &d)
    {
        reads.erase(d.id);
        if (d.status || !d.data) {
            regs.status = failed;
            interrupt_due = true;
            return;
        }
        for (std::uint32_t n = 0; n < d.length; n++)
            counts[d.data[n]]++;
        come += d.length;
        if (come == regs.bytes)
            ready_at = now_ps + work_ps;
    }

    void timer(std::uint64_t now_ps)
    {
        if (now_ps >= ready_at) {
            ready_at = RISER_NEVER;
            write_due = true;
        }
    }

    bool posted(riser_output &out)
    {
        if (write_due) {
            write_due = false;
            interrupt_due = true;
            regs.status = done;
            out.kind = RISER_WRITE;
            out.as.write.address = regs.destination;
            out.as.write.length = sizeof counts;
            out.as.write.data = reinterpret_cast<const std::uint8_t *>(counts.data());
            return true;
        }
        if (interrupt_due) {
            interrupt_due = false;
            out.kind = RISER_INTERRUPT;
            out.as.vector = 1;
            return true;
        }
        return false;
    }

    bool non_posted(riser_output &out)
    {
        if (regs.status != busy || asked == regs.bytes || reads.size() == in_flight)
            return false;
        const std::uint32_t length = std::min(piece, regs.bytes - asked);
        const std::uint32_t id = asked / piece;
        reads.insert(id);
        out.kind = RISER_READ;
        out.as.read.address = regs.source + asked;
        out.as.read.id = id;
        out.as.read.length = length;
        asked += length;
        return true;
    }

    bool completion(riser_output &out)
    {
        if (answers.empty())
            return false;
        leaving = std::move(answers.front().second);
        out.kind = RISER_COMPLETE;
        out.as.completion = answers.front().first;
        out.as.completion.data = leaving.data();
        answers.pop_front();
        return true;
    }
};

extern "C" const riser_device_ops *riser_device_entry(std::uint32_t abi)
{
    static const riser_device_ops ops = [] {
        riser_device_ops o{};
        o.abi = RISER_DEVICE_ABI;
        o.size = sizeof o;
        o.create = [](const char *, char *, std::size_t) { return std::make_unique<riser_device>().release(); };
        o.destroy = [](riser_device *d) { std::unique_ptr<riser_device>{d}; };
        o.reset = [](riser_device *d, std::uint64_t, std::uint32_t) { d->reset(); };
        o.read = [](riser_device *d, std::uint64_t, const riser_read *r) { d->read(*r); };
        o.write = [](riser_device *d, std::uint64_t, const riser_write *w) { d->write(*w); };
        o.dma_done = [](riser_device *d, std::uint64_t now, const riser_dma_done *done) { d->dma_done(now, *done); };
        o.timer = [](riser_device *d, std::uint64_t now) { d->timer(now); };
        o.next_timer = [](const riser_device *d) { return d->ready_at; };
        o.poll_output = [](riser_device *d, std::uint64_t, std::uint32_t class_, riser_output *out) -> int {
            switch (class_) {
            case RISER_POSTED:
                return d->posted(*out);
            case RISER_NON_POSTED:
                return d->non_posted(*out);
            default:
                return d->completion(*out);
            }
        };
        o.poll_taken = [](riser_device *d, std::uint32_t *token) -> int {
            if (d->taken.empty())
                return 0;
            *token = d->taken.front();
            d->taken.pop_front();
            return 1;
        };
        return o;
    }();
    return abi == RISER_DEVICE_ABI ? &ops : nullptr;
}
