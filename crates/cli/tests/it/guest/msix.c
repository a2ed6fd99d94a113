// SPDX-License-Identifier: Apache-2.0 OR MIT
// Masks and unmasks vector 1 of DMA engines in every way. Each function writes its data and its MSI-X messages into memory of this program.
// Prints the Pending Bit Array and the arrived interrupts of one function after another.
//
//   msix FUNCTION...

#include "../../../../../drivers/linux/riser_dma_registers.h"
#include "../../../../../examples/guest/function.h"

#define FUNCTIONS 8
#define ENABLE 0x8000
#define FUNCTION_MASK 0x4000
// Offsets in the page of a function: where its interrupt arrives, its ring of four descriptors, its data.
#define ARRIVED 0
#define RING 0x100
#define DATA 0x800

struct engine {
	struct function function;
	int msix;
	uint8_t *page;
	uint64_t bus;
	uint32_t posted;
};

static volatile uint32_t *reg(struct engine *e, int offset)
{
	return (volatile uint32_t *)(e->function.bar[0] + offset);
}

// Returns a register of engine 1, from device to host.
static volatile uint32_t *d2h(struct engine *e, int offset)
{
	return reg(e, RISER_DMA_ENGINE(1) + offset);
}

static volatile uint32_t *memory(struct engine *e, int offset)
{
	return (volatile uint32_t *)(e->page + offset);
}

// Returns a word of the MSI-X table entry of vector 1.
static volatile uint32_t *entry(struct engine *e, int offset)
{
	return reg(e, RISER_DMA_MSIX_TABLE + 16 + offset);
}

static void put_address(volatile uint32_t *to, uint64_t address)
{
	to[0] = address;
	to[1] = address >> 32;
}

static void control(struct engine *e, uint16_t value)
{
	set(&e->function, e->msix + 2, 2, value);
}

static void begin(struct engine *e, const char *name)
{
	open_function(&e->function, name);
	e->msix = capability(&e->function, 0x11);
	e->page = map_memory(PAGE, 0);
	e->bus = bus_address(e->page);
	set(&e->function, 4, 2, 6);
	put_address(d2h(e, RISER_DMA_ENGINE_RING), e->bus + RING);
	*d2h(e, RISER_DMA_ENGINE_ENTRIES) = 4;
	*d2h(e, RISER_DMA_ENGINE_CONTROL) = RISER_DMA_ENGINE_CONTROL_ENABLE | RISER_DMA_ENGINE_CONTROL_HOST_RING;
	put_address(entry(e, 0), e->bus + ARRIVED);
	*entry(e, 8) = 0xa1;
	*entry(e, 12) = 1;
}

// Starts one transfer to memory, whose end raises vector 1.
static void interrupt(struct engine *e)
{
	volatile uint32_t *descriptor = memory(e, RING + e->posted % 4 * RISER_DMA_DESCRIPTOR_STRIDE);

	put_address(descriptor, e->bus + DATA);
	descriptor[2] = 64;
	descriptor[4] = RISER_DMA_DESCRIPTOR_FLAGS_INTERRUPT;
	*d2h(e, RISER_DMA_ENGINE_POSTED) = ++e->posted;
	for (int n = 0; n < 10000 && *d2h(e, RISER_DMA_ENGINE_DONE) != e->posted; n++)
		usleep(10);
}

static void say(struct engine *e, const char *what)
{
	uint32_t pending = *reg(e, RISER_DMA_MSIX_PENDING);

	printf("%s: pending %x arrived %x\n", what, pending, *memory(e, ARRIVED));
	*memory(e, ARRIVED) = 0;
}

static void try_masks(struct engine *e)
{
	interrupt(e);
	say(e, "MSI-X disabled");
	control(e, ENABLE);
	interrupt(e);
	say(e, "entry masked");
	interrupt(e);
	say(e, "twice");
	*entry(e, 12) = 0;
	say(e, "entry unmasked");
	interrupt(e);
	say(e, "nothing masked");
	control(e, ENABLE | FUNCTION_MASK);
	interrupt(e);
	say(e, "function masked");
	*entry(e, 12) = 1;
	control(e, ENABLE);
	say(e, "entry masked in its place");
	*entry(e, 8) = 0xb2;
	*entry(e, 12) = 0;
	say(e, "new data");
	*reg(e, RISER_DMA_MSIX_PENDING) = 0xff;
	say(e, "the array is read-only");
}

int main(int count, char **names)
{
	static struct engine all[FUNCTIONS];

	count--;
	if (count > FUNCTIONS)
		return 2;
	for (int n = 0; n < count; n++)
		begin(&all[n], names[n + 1]);
	for (int n = 0; n < count; n++) {
		printf("function %s\n", names[n + 1]);
		try_masks(&all[n]);
	}
	// All functions at once: each writes to its own memory.
	for (int n = 0; n < count; n++) {
		*entry(&all[n], 8) = 0xc0 + n;
		interrupt(&all[n]);
	}
	for (int n = 0; n < count; n++)
		say(&all[n], names[n + 1]);
	return 0;
}
