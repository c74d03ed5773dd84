/* Odd: what FAKE_CUPTI_ODD asks for, a list with commas of
 *   zero        every 50th kernel has start = end = 0
 *   reversed    every 50th kernel ends before it starts
 *   duplicate   every 50th kernel comes twice
 *   shuffle     the records of a buffer, and the buffers, come in any order
 *   unknown     records of a kind that no header knows between the others
 *   late=MS     buffers come that much later
 *   drop=N      every Nth record is dropped and counted
 *   gone        at exit CUPTI is gone before functions registered with atexit() earlier
 *   slow=NS     that much time is spent for each call that makes a record
 *   loaded=NS   and that much for each call while CUPTI is there, whatever is enabled
 *   kernel=NS   and that much for each launch while kernels are recorded
 *   clock=none  another clock than its own is refused; clock=deaf: taken, and not used;
 *               clock=alien: the same, and its own is a day ahead of ours */
#include "fake_cupti.h"

#include <stdlib.h>
#include <string.h>

#define ODD_EVERY     50
#define UNKNOWN_EVERY 20

static void odd_word(struct odd *odd, const char *word)
{
	const char *value = strchr(word, '=');
	uint64_t number = value ? strtoull(value + 1, NULL, 0) : 0;

	if (strcmp(word, "zero") == 0)
		odd->zero = true;
	else if (strcmp(word, "reversed") == 0)
		odd->reversed = true;
	else if (strcmp(word, "duplicate") == 0)
		odd->duplicate = true;
	else if (strcmp(word, "shuffle") == 0)
		odd->shuffle = true;
	else if (strcmp(word, "unknown") == 0)
		odd->unknown = true;
	else if (strcmp(word, "gone") == 0)
		odd->gone = true;
	else if (strncmp(word, "late=", 5) == 0)
		odd->late_ns = number * 1000000;
	else if (strncmp(word, "drop=", 5) == 0)
		odd->drop = number;
	else if (strncmp(word, "slow=", 5) == 0)
		odd->slow_ns = number;
	else if (strncmp(word, "loaded=", 7) == 0)
		odd->loaded_ns = number;
	else if (strncmp(word, "kernel=", 7) == 0)
		odd->kernel_ns = number;
	else if (strcmp(word, "clock=none") == 0)
		odd->clock = ODD_CLOCK_NONE;
	else if (strcmp(word, "clock=deaf") == 0)
		odd->clock = ODD_CLOCK_DEAF;
	else if (strcmp(word, "clock=alien") == 0)
		odd->clock = ODD_CLOCK_ALIEN;
	else
		cupti_abort("FAKE_CUPTI_ODD has no '%s'", word);
}

void odd_read(struct odd *odd)
{
	const char *text = getenv("FAKE_CUPTI_ODD");
	char *words, *rest, *word;

	odd->seed = 1;
	if (!text || !*text)
		return;
	words = rest = strdup(text);
	if (!words)
		cupti_abort("out of memory");
	while ((word = strsep(&rest, ",")))
		if (*word)
			odd_word(odd, word);
	free(words);
}

void odd_spin(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;

	while (clock_ns() < until)
		;
}

bool odd_drops(void)
{
	return cupti.odd.drop && ++cupti.odd.records % cupti.odd.drop == 0;
}

bool odd_unknown(void)
{
	static uint64_t count;

	return cupti.odd.unknown && ++count % UNKNOWN_EVERY == 0;
}

bool odd_kernel(uint64_t *start, uint64_t *end)
{
	uint64_t swap = *start;

	if (++cupti.odd.kernels % ODD_EVERY)
		return false;
	if (cupti.odd.zero) {
		*start = *end = 0;
	} else if (cupti.odd.reversed) {
		*start = *end + 1;
		*end = swap;
	}
	return cupti.odd.duplicate;
}

/* Numbers that are the same in each run (Numerical Recipes' generator). */
static size_t odd_random(size_t below)
{
	cupti.odd.seed = cupti.odd.seed * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(cupti.odd.seed >> 33) % below;
}

void odd_shuffle_records(struct buffer *buffer)
{
	size_t *offsets = malloc((buffer->records + 1) * sizeof(*offsets));
	uint8_t *copy = malloc(buffer->used + 1);
	size_t count = 0, used = 0, offset = 0;

	if (!offsets || !copy)
		cupti_abort("out of memory");
	while (offset < buffer->used && count < buffer->records) {
		offsets[count++] = offset;
		offset += record_bytes(((struct cupti_record *)(buffer->data + offset))->kind);
	}
	memcpy(copy, buffer->data, buffer->used);
	for (; count; count--) {
		size_t pick = odd_random(count), bytes;

		offset = offsets[pick];
		offsets[pick] = offsets[count - 1];
		bytes = record_bytes(((struct cupti_record *)(copy + offset))->kind);
		memcpy(buffer->data + used, copy + offset, bytes);
		used += bytes;
	}
	free(offsets);
	free(copy);
}

void odd_shuffle_buffers(struct buffer **list)
{
	struct buffer *next, *mixed = NULL;

	for (struct buffer *b = *list; b; b = next) {
		struct buffer **link = &mixed;

		next = b->next;
		if (mixed && odd_random(2))
			link = &mixed->next;
		b->next = *link;
		*link = b;
	}
	*list = mixed;
}
