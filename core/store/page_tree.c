/* Page_tree: an inner page has cells, each with the page before its key, and one page behind them
 * all. The cells themselves may lie anywhere in it; an array at its start has them in order. */
#include "core/store/page_tree.h"

#include <stddef.h>
#include <string.h>

#define FIRST_AT 100 /* in the first page, behind the file's header */
#define CELLS_AT 12  /* of the array, from the start of an inner page */

enum { INNER_INDEX = 2, INNER_TABLE = 5 };

static uint32_t load16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t load32(const uint8_t *p)
{
	return load16(p) << 16 | load16(p + 2);
}

/* Where the number of the page before a cell's key stands; NULL: outside of the page. */
static uint8_t *page_before(uint8_t *page, const uint8_t *head, uint32_t cell)
{
	uint32_t at = load16(head + CELLS_AT + 2 * (size_t)cell);

	return at <= PAGE_BYTES - sizeof(uint32_t) ? page + at : NULL;
}

static void drop_cell(uint8_t *head, uint32_t cell, uint32_t cells)
{
	uint8_t *at = head + CELLS_AT + 2 * (size_t)cell;

	memmove(at, at + 2, 2 * (size_t)(cells - cell - 1));
	head[3] = (uint8_t)((cells - 1) >> 8);
	head[4] = (uint8_t)(cells - 1);
}

bool page_tree_drop(uint8_t page[PAGE_BYTES], bool first, uint32_t lost)
{
	uint8_t *head = page + (first ? FIRST_AT : 0), *behind = head + 8, *before;
	uint32_t cells = load16(head + 3);

	if ((*head != INNER_INDEX && *head != INNER_TABLE) || cells < 2 ||
	    CELLS_AT + 2 * (size_t)cells > PAGE_BYTES - (size_t)(head - page))
		return false;
	for (uint32_t cell = 0; cell < cells; cell++) {
		before = page_before(page, head, cell);
		if (!before)
			return false;
		if (load32(before) != lost)
			continue;
		drop_cell(head, cell, cells);
		return true;
	}
	if (load32(behind) != lost)
		return false;
	before = page_before(page, head, cells - 1);
	memcpy(behind, before, sizeof(uint32_t));
	drop_cell(head, cells - 1, cells);
	return true;
}
