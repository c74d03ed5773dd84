/* got.h: redirects the calls that other modules of the process make to a library.
 *
 * A module reaches another one's functions through slots in its own memory that the loader fills
 * in. Such a slot can be restored; a function that was looked up with dlsym() cannot be
 * redirected.
 */
#ifndef TS_INJECT_GOT_H
#define TS_INJECT_GOT_H

#include <stdbool.h>
#include <stddef.h>

struct got_hook {
	const char *symbol;
	void *ours;
};

/* Redirects the hooks in all modules except ours and the one that contains `except`. Does nothing
 * if no module was loaded since the last time. Returns how many slots were redirected. */
size_t got_turn(const struct got_hook *hook, size_t count, const void *except);
/* Whether a module has come whose calls are not redirected yet, and which; each is found once. Its
 * slots may not be filled in yet. */
bool got_finds(const struct got_hook *hook, size_t count, const void *except, char *name,
	       size_t size);
/* Whether a slot was redirected in a module whose file name starts with `prefix`. */
bool got_is_in(const char *prefix);
/* Restores all slots. */
void got_restore(void);

#endif
