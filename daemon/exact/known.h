/* known.h: what is known of the stacks of a process whose library reports all its calls with stacks
 * (proto/walk.h): the rules that it may walk by, and the ids that it may come to.
 *
 * A process can only name stacks of its own that the kernel's programs have sent.
 */
#ifndef TS_EXACT_KNOWN_H
#define TS_EXACT_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/walk.h"

struct known;

/* `shares`: with the library; else only ids are known. */
int known_new(bool shares, struct known **ret);
/* Takes NULL, as all here do. */
struct known *known_free(struct known *known);
/* The descriptor for the library, -1: none. */
int known_fd(const struct known *known);
void known_set_depth(struct known *known, uint32_t depth, uint32_t python_depth, bool check);

/* From then on all rules and ids are void, and nothing is shared until the new ids' seed is known.
 */
void known_forget(struct known *known, uint64_t time_ns);
/* Whether what was of that time has become void since. */
bool known_is_void(const struct known *known, uint64_t time_ns);
void known_set_seed(struct known *known, uint64_t seed);
/* For a return address. */
void known_add_rule(struct known *known, uint64_t address, struct rule rule);
/* False: there are too many. All are to be void, then. */
bool known_add_id(struct known *known, uint64_t id);
/* A call has it: the library may have lost it from what is shared. */
void known_see_id(struct known *known, uint64_t id);
/* Where its Python is. `frames`: the kernel's programs have walked those of a thread to their end.
 */
void known_add_python(struct known *known, const struct ts_python *python, bool frames);
/* It is of no interest any more what a call is to PyTorch's autograd. */
void known_end_autograd(struct known *known);

/* Whether a call at that time may have that stack. */
bool known_has(const struct known *known, uint64_t id, uint64_t time_ns);

#endif
