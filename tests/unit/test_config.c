/* Settings: what the file may say, and what becomes of a fault. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

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

	assert_int_equal(config_probe(config, &gpu_cuda, &probe), 0);
	assert_int_equal(config->ring_bytes, 8 << 20);
	assert_string_equal(config->libraries, "libcuda.so*");
	assert_int_equal(probe.samples_per_s, 20);
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

static void faults_are_refused(void **state)
{
	static const char *const texts[] = {
		"[probe]\nring_size = 3MiB\n",	  "[probe]\nring_size = -1\n",
		"[probe]\nring_size = 16 cows\n", "[probe]\nattach = kprobe\n",
		"[probe]\nno_such = 1\n",	  "[nowhere]\nring_size = 1MiB\n",
		"[probe]\nstack_depth = 9999\n",  "[probe]\nstack_depth = 1.5\n",
		"[store]\nkeep_age = soon\n",	  "this is no line\n",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (read_text(texts[i]) != -EINVAL)
			fail_msg("accepted: %s", texts[i]);
		end(NULL);
		begin(NULL);
	}
	assert_int_equal(config_read(config, "/nonexistent/file", false), -ENOENT);
	assert_int_equal(config_read(config, "/nonexistent/file", true), 0);
}

static void filters_are_lists_of_numbers(void **state)
{
	struct probe_config probe;

	assert_int_equal(read_text("[filter]\npids = 12 34,56\nuids = 1000\n"), 0);
	assert_int_equal(config_probe(config, &gpu_cuda, &probe), 0);
	assert_int_equal(probe.pid_count, 3);
	assert_int_equal(probe.pid[2], 56);
	assert_int_equal(probe.uid[0], 1000);
	assert_int_equal(read_text("[filter]\npids = 12 x\n"), 0);
	assert_int_equal(config_probe(config, &gpu_cuda, &probe), -EINVAL);
	assert_int_equal(read_text("[filter]\npids =\ncgroups = /no/such/cgroup\n"), 0);
	assert_int_equal(config_probe(config, &gpu_cuda, &probe), -EINVAL);
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

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		assert_int_equal(units_parse_size(size[i].text, &value), 0);
		assert_int_equal(value, size[i].value);
	}
	for (size_t i = 0; i < sizeof(duration) / sizeof(duration[0]); i++) {
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
		cmocka_unit_test_setup_teardown(printed_settings_are_read_back, begin, end),
		cmocka_unit_test_setup_teardown(values_have_units, begin, end),
		cmocka_unit_test_setup_teardown(faults_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(filters_are_lists_of_numbers, begin, end),
		cmocka_unit_test(units_are_read_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
