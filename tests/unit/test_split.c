/* Split: lines of code whose debug information is in files of its own, which may be gone. */
#include <dlfcn.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/elf.h"
#include "tests/unit/lines_fixture.h"

static const void *call_at;

static int remember_call(void)
{
	call_at = __builtin_return_address(0);
	return 1;
}

/* Of the code at `call_at`. */
static uint64_t offset_in(const char *path)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	uint64_t offset = 0;
	Dl_info info;

	assert_true(dladdr(call_at, &info));
	assert_int_equal(elf_open(&elf, fd), 0);
	assert_int_equal(elf_offset(&elf, (uintptr_t)call_at - (uintptr_t)info.dli_fbase, &offset),
			 0);
	return offset;
}

static void look_at_split(struct office *office, const char *path, uint64_t offset)
{
	open_office(office, path);
	assert_int_equal(lines_add(office->lines, new_job(office, offset)), 0);
	run(office);
}

/* The table of lines stays in the file; what the compiler put into what does not. Without it, no
 * line is told: it would be the outer function's that is named. */
static void check_split(const char *version)
{
	int (*through)(int (*call)(void));
	struct office office;
	char path[PATH_MAX];
	uint64_t offset;
	void *library;

	run_command("mkdir -p %s/split && cd %s/split && printf 'extern volatile int at;\nstatic "
		    "inline int inner(int (*call)(void))\n{\n\tat++;\n\treturn call() + at;\n}\n' "
		    ">inner.h && printf '#include \"inner.h\"\nvolatile int at;\nint through(int "
		    "(*call)(void));\nint through(int (*call)(void))\n{\n\tat = 0;\n\tat += "
		    "inner(call);\n\treturn at;\n}\n' >through.c && gcc -O2 -g -gdwarf-%s "
		    "-gsplit-dwarf -fPIC -c through.c && test -e through.dwo && gcc -shared -o "
		    "split.so through.o",
		    directory, directory, version);
	snprintf(path, sizeof(path), "%s/split/split.so", directory);
	library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	*(void **)&through = dlsym(library, "through");
	assert_non_null(through);
	through(remember_call);
	offset = offset_in(path);
	look_at_split(&office, path, offset);
	assert_int_equal(office.lined, 1);
	assert_int_equal(office.places, 2);
	assert_string_equal(office.function[0], "inner");
	assert_non_null(strstr(office.source[0], "/split/inner.h"));
	assert_int_equal(office.line[0], 5);
	assert_string_equal(office.function[1], "through");
	assert_non_null(strstr(office.source[1], "/split/through.c"));
	assert_int_equal(office.line[1], 7);
	close_office(&office);
	run_command("mv %s/split/through.dwo %s/split/elsewhere.dwo", directory, directory);
	look_at_split(&office, path, offset);
	assert_int_equal(office.lined, 0);
	close_office(&office);
	/* That of another program. */
	run_command("cd %s/split && echo >>through.c && echo 'int more;' >>through.c && gcc -O2 -g "
		    "-gdwarf-%s -gsplit-dwarf -fPIC -c through.c",
		    directory, version);
	look_at_split(&office, path, offset);
	assert_int_equal(office.lined, 0);
	close_office(&office);
	dlclose(library);
	run_command("rm -r %s/split", directory);
}

static void code_with_split_debug_information_has_lines(void **state)
{
	check_split("4");
	check_split("5");
}

int main(void)
{
	static const struct spawn_role roles[] = { { "ts-helper", daemon_help } };
	static const struct helper_kind kinds[] = {
		[KIND_LINES] = { .run = lines_look, .per_user = 1, .once = true },
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_with_split_debug_information_has_lines),
	};

	helper_kinds(kinds, ARRAY_SIZE(kinds));
	if (spawn_start(roles, ARRAY_SIZE(roles), &zygote) < 0)
		return 1;
	return cmocka_run_group_tests(tests, setup, teardown);
}
