/* returns.h: which functions of the table are probed at their return as well.
 *
 * Such a probe puts an address of the kernel's in the place of the return address, for as long as
 * the call runs. A call of a function without one is sent at its entry, as launches are: without
 * its result, its duration and what it gives back.
 */
#ifndef TS_LIBRARY_RETURNS_H
#define TS_LIBRARY_RETURNS_H

#include "daemon/library/library.h"

#define RETURNS_BITS 64

/* All zero: each function whose row says so. */
struct returns {
	uint64_t without[PROBE_FUNCTIONS_MAX / RETURNS_BITS]; /* a bit for each, by its number */
};

/* The text of a setting: "yes", "no", or "all but" and names of functions, with * and ?, separated
 * by spaces. -EINVAL: none of these, or (`ret_unknown` gets it, else "") no function with a return
 * probe has such a name. */
#define RETURNS_NAME_SIZE 64
int returns_parse(const char *text, struct returns *ret, char ret_unknown[RETURNS_NAME_SIZE]);

/* No function any more. */
void returns_none(struct returns *returns);
bool returns_have(const struct returns *returns, const struct library_function *function);
/* How many functions are seen at their entry only whose row says otherwise. */
uint32_t returns_without(const struct returns *returns);

/* What the BPF programs need to know of a function. */
void returns_probe_desc(const struct returns *returns, const struct library_function *function,
			struct probe_desc *ret);

#endif
