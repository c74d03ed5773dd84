/* Debug_file: looked for where gdb does. The directories are others': what is opened there (by the
 * opener) is never outside of their root, and must have the same build id. 0 is our own root. */
#include "daemon/symbol/debug_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/build_id.h"
#include "daemon/elf/elf.h"
#include "daemon/proc/opener.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"
#define LINK_MAX	256

struct wanted {
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t id_size;
	char link[LINK_MAX];	  /* "" without one */
	bool is_path;		  /* else it is the name of a file */
	char directory[PATH_MAX]; /* of the file, as its process sees it */
};

/* The start of the section of that name, which has `name_size` bytes with its NUL, with a NUL
 * behind it. Its size; 0: there is none. */
static size_t read_section(const struct elf *elf, const char *name, size_t name_size,
			   char ret[LINK_MAX])
{
	const Elf64_Shdr *names;
	char text[32];

	if (!elf->section || elf->header.e_shstrndx >= elf->header.e_shnum)
		return 0;
	names = &elf->section[elf->header.e_shstrndx];
	for (unsigned int i = 0; i < elf->header.e_shnum; i++) {
		const Elf64_Shdr *section = &elf->section[i];
		size_t size = section->sh_size < LINK_MAX ? section->sh_size : LINK_MAX - 1;

		if (section->sh_name >= names->sh_size ||
		    elf_read(elf, names->sh_offset + section->sh_name, text, name_size) < 0 ||
		    memcmp(text, name, name_size) != 0)
			continue;
		if (elf_read(elf, section->sh_offset, ret, size) < 0)
			size = 0;
		ret[size] = '\0';
		return size;
	}
	return 0;
}
#define READ_SECTION(elf, name, ret) read_section(elf, name, sizeof(name), ret)

/* False: the file has no such name. */
static bool set_directory(struct wanted *wanted, const char *path)
{
	char *slash;

	snprintf(wanted->directory, sizeof(wanted->directory), "%s", path);
	slash = strrchr(wanted->directory, '/');
	if (slash)
		*slash = '\0';
	return slash;
}

static int want(int fd, const char *path, struct wanted *ret)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	int r = elf_open(&elf, fd);

	if (r < 0)
		return r;
	*ret = (struct wanted){ .is_path = false };
	ret->id_size = elf_build_id(&elf, ret->id);
	if (READ_SECTION(&elf, ".gnu_debuglink", ret->link) && strchr(ret->link, '/'))
		ret->link[0] = '\0';
	if (!set_directory(ret, path))
		ret->link[0] = '\0';
	return ret->id_size < 2 ? -ENOENT : 0;
}

/* The name ends with a NUL, and the build id follows. */
static int want_common(int fd, const char *path, struct wanted *ret)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	char text[LINK_MAX];
	size_t size, name;
	int r = elf_open(&elf, fd);

	if (r < 0)
		return r;
	*ret = (struct wanted){ .is_path = true };
	size = READ_SECTION(&elf, ".gnu_debugaltlink", text);
	name = strnlen(text, size) + 1;
	if (name < 2 || size < name + 2 || size - name > sizeof(ret->id))
		return -ENOENT;
	memcpy(ret->link, text, name);
	ret->id_size = size - name;
	memcpy(ret->id, text + name, ret->id_size);
	return set_directory(ret, path) || text[0] == '/' ? 0 : -ENOENT;
}

static bool is_it(const struct wanted *wanted, int fd)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	uint8_t id[ELF_BUILD_ID_MAX];
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && elf_open(&elf, fd) == 0 &&
	       elf_build_id(&elf, id) == wanted->id_size &&
	       memcmp(id, wanted->id, wanted->id_size) == 0;
}

static int open_in(uint32_t root, const struct wanted *wanted, const char *path)
{
	const struct opener_request by_path = { .kind = OPENER_PATH, .pid = root, .path = path };
	struct opener_request whole = { .kind = OPENER_FILE };
	_cleanup_(closep) int found = opener_ask(&by_path, NULL), fd = -1;

	whole.file = found;
	if (found >= 0)
		fd = opener_ask(&whole, NULL);
	return fd >= 0 && is_it(wanted, fd) ? TAKE_FD(fd) : -ENOENT;
}

static int take_path(uint32_t root, const struct wanted *wanted, const char *path,
		     char ret_path[DEBUG_FILE_PATH_MAX])
{
	int fd = open_in(root, wanted, path);

	if (fd >= 0)
		snprintf(ret_path, DEBUG_FILE_PATH_MAX, "%s", path);
	return fd;
}

static int open_by_link(uint32_t root, const struct wanted *wanted,
			char ret_path[DEBUG_FILE_PATH_MAX])
{
	static const struct {
		const char *before, *after;
	} places[] = { { "", "" }, { "", "/.debug" }, { DEBUG_DIRECTORY, "" } };
	char path[DEBUG_FILE_PATH_MAX];
	int fd = -ENOENT;

	if (wanted->is_path) {
		snprintf(path, sizeof(path), "%s/%s",
			 wanted->link[0] == '/' ? "" : wanted->directory, wanted->link);
		return take_path(root, wanted, path, ret_path);
	}
	for (size_t i = 0; wanted->link[0] && fd < 0 && i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s%s%s/%s", places[i].before, wanted->directory,
			 places[i].after, wanted->link);
		fd = take_path(root, wanted, path, ret_path);
	}
	return fd;
}

static int open_by_id(uint32_t root, const struct wanted *wanted,
		      char ret_path[DEBUG_FILE_PATH_MAX])
{
	char path[DEBUG_FILE_PATH_MAX], hex[2 * ELF_BUILD_ID_MAX + 1] = "";

	for (size_t i = 0; i < wanted->id_size; i++)
		snprintf(hex + 2 * i, 3, "%02x", wanted->id[i]);
	snprintf(path, sizeof(path), DEBUG_DIRECTORY "/.build-id/%.2s/%s.debug", hex, hex + 2);
	return take_path(root, wanted, path, ret_path);
}

static int open_wanted(uint32_t pid, const struct wanted *wanted,
		       char ret_path[DEBUG_FILE_PATH_MAX])
{
	const uint32_t roots[] = { pid, 0 };
	int found = -ENOENT;

	for (size_t i = 0; found < 0 && i < ARRAY_SIZE(roots); i++) {
		found = open_by_id(roots[i], wanted, ret_path);
		if (found < 0)
			found = open_by_link(roots[i], wanted, ret_path);
	}
	return found;
}

int debug_file_open(int fd, uint32_t pid, const char *path, char ret_path[DEBUG_FILE_PATH_MAX])
{
	struct wanted wanted;
	int r = want(fd, path, &wanted);

	return r < 0 ? r : open_wanted(pid, &wanted, ret_path);
}

int debug_file_open_common(int fd, uint32_t pid, const char *path)
{
	struct wanted wanted;
	char found[DEBUG_FILE_PATH_MAX];
	int r = want_common(fd, path, &wanted);

	return r < 0 ? r : open_wanted(pid, &wanted, found);
}
