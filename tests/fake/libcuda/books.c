/* Books: what is live by kind and device, and what was done, as the driver itself knows it: what a
 * tracer's answers are compared with. */
#include "fake.h"

static _Atomic uint64_t books_done[FAKE_BOOK_OPS];

void books_count(unsigned int kind)
{
	atomic_fetch_add_explicit(&books_done[kind], 1, memory_order_relaxed);
}

void books_add(struct fake_books *books, enum fake_book kind, int device, uint64_t bytes)
{
	struct fake_book_entry *entry = &books->live[kind][device < 0 ? DEVICES_MAX : device];

	entry->bytes += bytes;
	entry->count++;
}

/* What a queued free will give back is the program's no more. */
static void books_add_block(struct block *block, void *user)
{
	static const uint8_t kinds[] = {
		[BLOCK_DEVICE] = FAKE_BOOK_DEVICE,
		[BLOCK_MANAGED] = FAKE_BOOK_MANAGED,
		[BLOCK_POOL] = FAKE_BOOK_POOL,
		[BLOCK_HOST] = FAKE_BOOK_HOST,
	};

	if (block->kind < ARRAY_SIZE(kinds) && !block->freeing)
		books_add(user, kinds[block->kind], block->device, block->bytes);
}

void books_read(struct fake_books *books)
{
	*books = (struct fake_books){ 0 };
	region_lock();
	region_each(books_add_block, books);
	region_unlock();
	host_tell_books(books);
	vmm_tell_books(books);
	for (unsigned int i = 0; i < FAKE_BOOK_OPS; i++)
		books->done[i] = atomic_load(&books_done[i]);
}
