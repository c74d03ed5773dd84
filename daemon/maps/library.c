/* maps_library: the libraries that any process maps, each known to the user from its first mapper
 * until the grace time after its last.
 */
#include <errno.h>
#include <string.h>

#include "daemon/library/library.h"
#include "daemon/maps/state.h"

bool maps_library_matches(const struct maps *maps, const char *path)
{
	return library_matches(path, maps->patterns);
}

static struct maps_library *library_find(struct maps *maps, const struct maps_file *file)
{
	uint32_t i;

	for (i = 0; i < maps->library_count; i++)
		if (maps->library[i].file == file)
			return &maps->library[i];
	return NULL;
}

int maps_library_add_mapper(struct maps *maps, struct maps_file *file, uint32_t pid)
{
	struct maps_library *library = library_find(maps, file);

	if (library) {
		library->idle_ns = 0;
		file->mappers++;
		if (maps->callbacks.library_shared)
			maps->callbacks.library_shared(maps->data, file, pid);
		return 0;
	}
	if (maps->library_count == LIMIT_LIBRARIES) {
		maps->limited++;
		return -ENOSPC;
	}
	maps->library[maps->library_count++] =
		(struct maps_library){ .file = maps_files_share(file) };
	file->library = true;
	file->mappers = 1;
	maps->callbacks.library_found(maps->data, file, pid);
	return 0;
}

void maps_library_drop_mapper(struct maps *maps, struct maps_file *file)
{
	if (--file->mappers > 0)
		return;
	library_find(maps, file)->idle_ns = uv_hrtime();
	maps_grace_begin(maps);
}

uint64_t maps_library_expire(struct maps *maps, uint64_t now_ns)
{
	uint64_t next_ns = 0;
	uint32_t i = 0;

	while (i < maps->library_count) {
		struct maps_library *library = &maps->library[i];
		struct maps_file *file = library->file;
		uint64_t due_ns = library->idle_ns + maps->grace_ns;

		if (library->idle_ns && due_ns <= now_ns) {
			maps->callbacks.library_gone(maps->data, file);
			file->library = false;
			*library = maps->library[--maps->library_count];
			maps_files_put(file);
			continue;
		}
		if (library->idle_ns && (!next_ns || due_ns < next_ns))
			next_ns = due_ns;
		i++;
	}
	return next_ns;
}
