/* name.h: texts that libraries send once and refer to by number afterwards. */
#ifndef TS_CORE_NAME_H
#define TS_CORE_NAME_H

#include <stddef.h>
#include <stdint.h>

struct core;
struct exact;
struct process;

/* The id of the name with this number, 0: unknown. */
uint64_t name_find(const struct exact *exact, uint32_t number);
/* A NAME record, checked. */
int name_take(struct core *core, struct process *process, uint32_t number, const char *text,
	      size_t length);
void name_free_all(struct core *core, struct exact *exact);

#endif
