/* page_tree.h: the pages of SQLite's trees, as bytes: what is above them leaves out those that are
 * lost. By "B-tree Pages" of SQLite's file format.
 */
#ifndef TS_PAGE_TREE_H
#define TS_PAGE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE_BYTES 4096

/* Takes a page out of the one above it, with the row that stands there between it and the next one,
 * if the tree has rows there. `first`: the page above is the first of the file. False: it is not
 * above it; or it has no other page, so that nothing would be left. */
bool page_tree_drop(uint8_t page[PAGE_BYTES], bool first, uint32_t lost);

#endif
