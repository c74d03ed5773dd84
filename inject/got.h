/* got.h: the calls that other modules of the process make to a library, turned to functions of
 * ours.
 *
 * A module reaches another one's functions through slots in its own memory that the loader fills
 * in. What is written there can be taken back; a function that was looked up with dlsym() cannot be
 * turned.
 */
#ifndef TS_INJECT_GOT_H
#define TS_INJECT_GOT_H

#include <stdbool.h>
#include <stddef.h>

struct got_hook {
	const char *symbol;
	void *ours;
};

/* Turns the hooks in all modules but ours and that which holds `except`. Does nothing where no
 * module has come since the last time. Returns how many slots were turned. */
size_t got_turn(const struct got_hook *hook, size_t count, const void *except);
/* Turns all back. */
void got_restore(void);

#endif
