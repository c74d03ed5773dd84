/* Settings: what the file may contain, and what happens to errors. */
#include <errno.h>
#include <limits.h>
#include <mntent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"
#include "daemon/config.h"

static struct config *config;

static int begin(void **state)
{
	log_set_level(0); /* what is wrong is told on stderr: not here */
	return config_new(&config);
}

static int end(void **state)
{
	config = config_free(config);
	return 0;
}

static int read_text(const char *text)
{
	char path[] = "/tmp/test_config.XXXXXX";
	int fd = mkstemp(path), r;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	r = config_read(config, path, false);
	unlink(path);
	return r;
}

static void defaults_are_good(void **state)
{
	struct probe_config probe;

	assert_int_equal(config_probe(config, &probe), 0);
	assert_int_equal(config->ring_bytes, 8 << 20);
	assert_string_equal(config->libraries, "libcuda.so* libtracesmith-range.so*");
	assert_int_equal(probe.samples_per_s, 20);
}

static void functions_without_a_return_probe_are_named(void **state)
{
	struct probe_config probe;

	assert_int_equal(config_probe(config, &probe), 0);
	assert_int_equal(returns_without(&probe.returns), 0);
	assert_int_equal(read_text("[probe]\nreturns = all but cuInit\n cuMemFree_v2\n"), 0);
	assert_int_equal(config_probe(config, &probe), 0);
	assert_int_equal(returns_without(&probe.returns), 2);
	assert_int_equal(read_text("[probe]\nreturns = no\n"), 0);
	assert_int_equal(config_probe(config, &probe), 0);
	assert_true(returns_without(&probe.returns) > 2);
	assert_int_equal(read_text("[probe]\nreturns = some\n"), 0);
	assert_int_equal(config_probe(config, &probe), -EINVAL);
	assert_int_equal(read_text("[probe]\nreturns = all but cuNone\n"), 0);
	assert_int_equal(config_probe(config, &probe), -EINVAL);
}

/* Whatever the file says of other things, and where there is none. */
static void other_libraries_are_followed_unless_somebody_says_no(void **state)
{
	assert_int_equal(config_read(config, "/nonexistent/file", true), 0);
	assert_int_equal(config->tensors, TENSORS_WITHIN_BUDGET);
	assert_string_equal(config->libraries,
			    "libcuda.so* libtracesmith-range.so* libc10.so* libnccl.so*");
	end(NULL);
	begin(NULL);
	assert_int_equal(read_text("[probe]\nlibraries = libx.so\n"), 0);
	assert_string_equal(config->libraries, "libx.so libc10.so* libnccl.so*");
	end(NULL);
	begin(NULL);
	assert_int_equal(read_text("[probe]\ntensors = no\nnccl = no\n"), 0);
	assert_null(strstr(config->libraries, "libc10"));
	assert_null(strstr(config->libraries, "libnccl"));
	assert_int_equal(read_text("[probe]\ntensor_requests = yes\n"), 0);
	assert_null(strstr(config->libraries, "libc10"));
	assert_int_equal(read_text("[probe]\ntensors = yes\n"), 0);
	assert_non_null(strstr(config->libraries, "libc10.so* libc10_cuda.so*"));
}

static void printed_settings_are_read_back(void **state)
{
	_cleanup_(freep) char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	config_print(file);
	fclose(file);
	for (char *p = text; (p = strstr(p, "\n#")); p++)
		if (p[2] != ' ')
			p[1] = '\n'; /* every setting, as if somebody had uncommented it */
	assert_int_equal(read_text(text), 0);
}

static void values_have_units(void **state)
{
	assert_int_equal(read_text("[probe]\nring_size = 32MiB\n[store]\nkeep_age = 1.5h\n"
				   "keep_size = 0\nbounds_wait = 250ms\n"),
			 0);
	assert_int_equal(config->ring_bytes, 32 << 20);
	assert_int_equal(config->keep_ns, 5400000000000);
	assert_int_equal(config->keep_bytes, 0);
	assert_int_equal(config->bounds_wait_ns, 250000000);
	assert_int_equal(read_text("[store]\nkeep_age = 10m\nkeep_size = 2GB\n"), 0);
	assert_int_equal(config->keep_ns, 600000000000);
	assert_int_equal(config->keep_bytes, 2000000000);
}

static void a_budget_is_a_share_or_none(void **state)
{
	assert_int_equal(read_text("[probe]\nbudget = none\n[exact]\nbudget = 99.9%\n"), 0);
}

static void faults_are_refused(void **state)
{
	static const char *const texts[] = {
		"[probe]\nring_size = 3MiB\n",	  "[probe]\nring_size = -1\n",
		"[probe]\nring_size = 16 cows\n", "[probe]\nattach = kprobe\n",
		"[probe]\nno_such = 1\n",	  "[nowhere]\nring_size = 1MiB\n",
		"[probe]\nstack_depth = 9999\n",  "[probe]\nstack_depth = 1.5\n",
		"[store]\nkeep_age = soon\n",	  "this is no line\n",
		"[probe]\nbudget = 0\n",	  "[probe]\nbudget = 0%\n",
		"[probe]\nbudget = 100%\n",	  "[probe]\nbudget = -1%\n",
		"[exact]\nbudget = 100%\n",	  "[probe]\ntrap_limit = 0\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (read_text(texts[i]) != -EINVAL)
			fail_msg("accepted: %s", texts[i]);
		end(NULL);
		begin(NULL);
	}
	assert_int_equal(config_read(config, "/nonexistent/file", false), -ENOENT);
	assert_int_equal(config_read(config, "/nonexistent/file", true), 0);
}

/* The parser would cut it, and take the rest for the next line. */
static void a_line_is_read_whole_or_refused(void **state)
{
	static const char head[] = "[probe]\nstanding = ";
	char text[4200], value[4096];

	for (size_t size = 100; size < sizeof(value); size += 100) {
		memset(value, 'x', size);
		value[size] = '\0';
		snprintf(text, sizeof(text), "%s%s\n", head, value);
		if (size > LINE_MAX - 20) {
			assert_int_equal(read_text(text), -EINVAL);
			continue;
		}
		assert_int_equal(read_text(text), 0);
		assert_string_equal(config->standing, value);
	}
	/* Also where the rest would go on with the value. */
	memset(value, ' ', sizeof(value) - 1);
	value[2200] = 'x';
	value[2201] = '\0';
	snprintf(text, sizeof(text), "%sa%s\n", head, value);
	assert_int_equal(read_text(text), -EINVAL);
}

static void a_value_goes_on_in_indented_lines(void **state)
{
	assert_int_equal(read_text("[probe]\n  libraries = a.so\n\tb.so\n c.so\ntensors = no\n"
				   "nccl = no\nstanding = /a\nstanding = /b\n"),
			 0);
	assert_string_equal(config->libraries, "a.so b.so c.so");
	assert_string_equal(config->standing, "/b");
	assert_int_equal(read_text("[store]\nkeep_age = 1d\n keep_size = 1GiB\n"), -EINVAL);
}

static void filters_are_lists(void **state)
{
	struct probe_config probe;

	assert_int_equal(read_text("[filter]\npids = 12 34,56\nuids = 1000\n"), 0);
	assert_int_equal(config_probe(config, &probe), 0);
	assert_int_equal(probe.pid_count, 3);
	assert_int_equal(probe.pid[2], 56);
	assert_int_equal(probe.uid[0], 1000);
	assert_int_equal(read_text("[filter]\npids = 12 x\n"), 0);
	assert_int_equal(config_probe(config, &probe), -EINVAL);
}

static void users_have_names(void **state)
{
	struct probe_config probe;

	assert_int_equal(read_text("[filter]\nuids = nobody 7 root\n"), 0);
	assert_int_equal(config_probe(config, &probe), 0);
	assert_int_equal(probe.uid_count, 3);
	assert_int_equal(probe.uid[0], 65534);
	assert_int_equal(probe.uid[1], 7);
	assert_int_equal(probe.uid[2], 0);
	assert_int_equal(read_text("[filter]\nuids = no-such-user\n"), 0);
	assert_int_equal(config_probe(config, &probe), -EINVAL);
}

/* Where a file system of that type is mounted first; false: nowhere. */
static bool mount_of(const char *type, char path[256])
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	struct mntent *entry;
	bool found = false;

	while (!found && (entry = getmntent(mounts))) {
		found = !strcmp(entry->mnt_type, type) && strlen(entry->mnt_dir) < 256;
		if (found)
			strcpy(path, entry->mnt_dir);
	}
	endmntent(mounts);
	return found;
}

static int read_cgroup(const char *path, struct probe_config *ret)
{
	char text[512];

	snprintf(text, sizeof(text), "[filter]\ncgroups = %s\n", path);
	assert_int_equal(read_text(text), 0);
	return config_probe(config, ret);
}

static void a_cgroup_is_one_of_v2(void **state)
{
	struct probe_config probe;
	char path[256];
	struct stat st;

	assert_int_equal(read_cgroup("/no/such/cgroup", &probe), -EINVAL);
	assert_int_equal(read_cgroup("/tmp", &probe), -EINVAL);
	assert_int_equal(read_cgroup("/etc/passwd", &probe), -EINVAL);
	if (mount_of("cgroup", path))
		assert_int_equal(read_cgroup(path, &probe), -EINVAL);
	if (!mount_of("cgroup2", path))
		skip();
	assert_int_equal(read_cgroup(path, &probe), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(probe.cgroup[0], st.st_ino);
}

/* That of the default need not be there, where somebody tries the daemon out. */
static void a_group_that_is_named_has_to_be_there(void **state)
{
	assert_int_equal(read_text("[daemon]\ncontrol_group = no-such-group\n"), -EINVAL);
	assert_int_equal(read_text("[daemon]\ncontrol_group = root\n"), 0);
	assert_string_equal(config->control_group, "root");
	assert_int_equal(read_text("[daemon]\ncontrol_group =\n"), 0);
}

static void units_are_read_as_people_write_them(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} size[] = { { "2GB", 2000000000 },    { "2GiB", 2147483648 }, { "2G", 2147483648 },
		     { "2g", 2147483648 },     { "500MB", 500000000 }, { "1.5 MiB", 1572864 },
		     { "64kb", 64000 },	       { "64kB", 64000 },      { "4KiB", 4096 },
		     { "1TB", 1000000000000 }, { "4096", 4096 },       { "4096B", 4096 },
		     { "10 bytes", 10 } },
	  duration[] = { { "10m", 600000000000 },   { "10min", 600000000000 },
			 { "1.5s", 1500000000 },    { "1.50 s", 1500000000 },
			 { "500ms", 500000000 },    { "90sec", 90000000000 },
			 { "7d", 604800000000000 }, { "2h", 7200000000000 },
			 { "3us", 3000 },	    { "3\302\265s", 3000 },
			 { "3\316\274s", 3000 },    { "40ns", 40 },
			 { "10", 10000000000 } };
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(size); i++) {
		assert_int_equal(units_parse_size(size[i].text, &value), 0);
		assert_int_equal(value, size[i].value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(duration); i++) {
		assert_int_equal(units_parse_duration(duration[i].text, &value), 0);
		assert_int_equal(value, duration[i].value);
	}
	assert_int_equal(units_parse_size("2GBs", &value), -EINVAL);
	assert_int_equal(units_parse_size("GB", &value), -EINVAL);
	assert_int_equal(units_parse_size("2  GB", &value), -EINVAL);
	assert_int_equal(units_parse_size("2 ", &value), -EINVAL);
	assert_int_equal(units_parse_duration("10M", &value), -EINVAL); /* months? */
	assert_int_equal(units_parse_duration("10q", &value), -EINVAL);
	assert_int_equal(units_parse_duration("1.5.2s", &value), -EINVAL);
	assert_int_equal(units_parse_duration(".", &value), -EINVAL);
}

static void units_are_read_exactly(void **state)
{
	uint64_t value;

	assert_int_equal(units_parse_duration("10us", &value), 0);
	assert_int_equal(value, 10000);
	assert_int_equal(units_parse_duration("2d", &value), 0);
	assert_int_equal(value, 172800000000000);
	assert_int_equal(units_parse_size("1.5K", &value), 0);
	assert_int_equal(value, 1536);
	assert_int_equal(units_parse_duration("99999999d", &value), -ERANGE);
	assert_int_equal(units_parse_count("0x10", &value), -EINVAL);
	assert_int_equal(units_parse_count("", &value), -EINVAL);
	assert_int_equal(units_parse_count("nan", &value), -EINVAL);
	assert_int_equal(units_parse_size("-5", &value), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units_are_read_as_people_write_them),
		cmocka_unit_test_setup_teardown(defaults_are_good, begin, end),
		cmocka_unit_test_setup_teardown(functions_without_a_return_probe_are_named, begin,
						end),
		cmocka_unit_test_setup_teardown(
			other_libraries_are_followed_unless_somebody_says_no, begin, end),
		cmocka_unit_test_setup_teardown(printed_settings_are_read_back, begin, end),
		cmocka_unit_test_setup_teardown(values_have_units, begin, end),
		cmocka_unit_test_setup_teardown(a_budget_is_a_share_or_none, begin, end),
		cmocka_unit_test_setup_teardown(faults_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(a_line_is_read_whole_or_refused, begin, end),
		cmocka_unit_test_setup_teardown(a_value_goes_on_in_indented_lines, begin, end),
		cmocka_unit_test_setup_teardown(filters_are_lists, begin, end),
		cmocka_unit_test_setup_teardown(users_have_names, begin, end),
		cmocka_unit_test_setup_teardown(a_cgroup_is_one_of_v2, begin, end),
		cmocka_unit_test_setup_teardown(a_group_that_is_named_has_to_be_there, begin, end),
		cmocka_unit_test(units_are_read_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
