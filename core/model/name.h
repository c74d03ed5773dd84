/* name.h: texts that libraries send once and refer to by number afterwards. */
#ifndef TS_CORE_NAME_H
#define TS_CORE_NAME_H

#include <stddef.h>
#include <stdint.h>

struct core;
struct exact;
struct map;
struct process;

/* The id of the name with this number, 0: unknown. */
uint64_t name_find(const struct exact *exact, uint32_t number);
/* A NAME record, checked. */
int name_take(struct core *core, struct process *process, uint32_t number, const char *text,
	      size_t length);
/* Tells the store a name of a process, unless that was done lately: then the names are in `told`.
 * Its id; 0, with the loss counted, if the process has too many. */
uint64_t name_tell(struct core *core, struct process *process, struct map *told, const char *text,
		   size_t length);
void name_forget_all(struct core *core, const struct process *process, struct map *told);
void name_free_all(struct core *core, struct exact *exact);

#endif
