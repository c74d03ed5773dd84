/* Whose: running processes are in the map, ended ones in the array. */
#include "core/store/whose.h"

static struct map_key whose_key(uint32_t process)
{
	return (struct map_key){ process, 0 };
}

void whose_tell(struct whose *whose, uint32_t process, uint32_t user, bool ended)
{
	const struct whose_process row = { process, user };

	whose->last = row;
	if (ended) {
		map_remove(&whose->running, whose_key(process));
		whose->ended[process % WHOSE_ENDED] = row;
	} else {
		map_put(&whose->running, whose_key(process), (void *)((uintptr_t)user + 1));
	}
}

static uint32_t whose_find(const struct whose *whose, uint32_t process)
{
	uintptr_t user = (uintptr_t)map_get(&whose->running, whose_key(process));
	const struct whose_process *ended = &whose->ended[process % WHOSE_ENDED];

	if (user)
		return (uint32_t)(user - 1);
	return ended->process == process ? ended->user : 0;
}

uint32_t whose_of(struct whose *whose, uint32_t process)
{
	if (whose->last.process != process)
		whose->last = (struct whose_process){ process, whose_find(whose, process) };
	return whose->last.user;
}

void whose_clear(struct whose *whose)
{
	map_clear(&whose->running);
}
