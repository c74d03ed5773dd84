/* Reader: belongs to one request at a time; two for one process at the same time have one each. */
#include "daemon/stack/reader.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

static void forget(struct reader *reader)
{
	reader->python = python_free(reader->python);
	reader->native = native_free(reader->native);
}

struct reader *reader_free(struct reader *reader)
{
	if (!reader)
		return NULL;
	forget(reader);
	free(reader);
	return NULL;
}

struct reader *readers_take(struct readers *readers, uint32_t pid)
{
	struct reader *reader;

	for (size_t i = 0; i < ARRAY_SIZE(readers->kept); i++)
		if (readers->kept[i] && readers->kept[i]->pid == pid)
			return TAKE(readers->kept[i]);
	reader = calloc(1, sizeof(*reader));
	if (reader)
		reader->pid = pid;
	return reader;
}

int reader_check(struct reader *reader)
{
	struct procfs_program program;
	int r = procfs_program(reader->pid, &program);

	if (r < 0)
		return r;
	if (memcmp(&program, &reader->program, sizeof(program)) != 0)
		forget(reader);
	reader->program = program;
	return 0;
}

void readers_put(struct readers *readers, struct reader *reader, uint64_t now_ns)
{
	size_t place = 0;

	for (size_t i = 0; i < ARRAY_SIZE(readers->kept); i++) {
		if (!readers->kept[i]) {
			place = i;
			break;
		}
		if (readers->kept[i]->used_ns < readers->kept[place]->used_ns)
			place = i;
	}
	reader_free(readers->kept[place]);
	readers->kept[place] = reader;
	reader->used_ns = now_ns;
}

void readers_tick(struct readers *readers, uint64_t now_ns)
{
	for (size_t i = 0; i < ARRAY_SIZE(readers->kept); i++)
		if (readers->kept[i] && now_ns - readers->kept[i]->used_ns > LIMIT_STACK_KEEP_NS)
			readers->kept[i] = reader_free(readers->kept[i]);
}
