/* test_maps: real processes that map files, seen through perf events or /proc. Needs root. */
#include "maps_fixture.h"

static void library_is_found_when_mapped_and_let_go_after_the_process(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	_cleanup_(freep) char *path = library_path(world, "a");
	struct maps_stats stats;
	struct child child;
	uint64_t before_ns;

	write_library(path, 'a');
	config.events.open = NULL; /* those of the whole host, as the daemon's */
	world_start(world, config);
	maps_stats(world->maps, &stats);
	assert_true(stats.live);
	before_ns = uv_hrtime();
	child = child_start(body_map, path);
	child_hear(&child);
	WAIT_UNTIL(world, world->found == 1);
	assert_int_equal(world->found_pid, child.pid);
	assert_in_range(world->mapped_ns, before_ns, uv_hrtime());
	assert_false(world->forked);
	assert_int_equal(maps_unheard_ns(world->maps), UINT64_MAX);
	assert_string_equal(world->file->path, path);
	assert_int_equal(world->file->mappers, 1);
	check_resolves(world, child.pid, child.address, 'a');
	child_end(&child);
	WAIT_UNTIL(world, world->gone == 1);
	assert_int_equal(world->processes_gone, 1);
	assert_int_equal(world->gone_pid, child.pid);
	maps_stats(world->maps, &stats);
	assert_int_equal(stats.libraries, 0);
	assert_int_equal(stats.processes, 0);
	WAIT_UNTIL(world, (maps_stats(world->maps, &stats), stats.mappings + stats.files == 0));
}

static void library_mapped_before_is_found_by_the_scan(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a");
	struct child child;

	write_library(path, 'a');
	child = child_start(body_map, path);
	child_hear(&child);
	world_start(world, config_default());
	assert_int_equal(maps_scan(world->maps), 0);
	assert_int_equal(world->found, 1);
	assert_int_equal(world->mapped_ns, 0);
	check_resolves(world, child.pid, child.address, 'a');
	child_end(&child);
	WAIT_UNTIL(world, world->gone == 1);
}

static void without_perf_events_proc_is_read(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	_cleanup_(freep) char *path = library_path(world, "a");
	struct maps_stats stats;
	struct child child;

	write_library(path, 'a');
	config.ring_bytes = RING_REFUSED;
	world_start(world, config);
	maps_stats(world->maps, &stats);
	assert_false(stats.live);
	child = child_start(body_map, path);
	child_hear(&child);
	WAIT_UNTIL(world, world->found == 1);
	check_resolves(world, child.pid, child.address, 'a');
	child_end(&child);
	WAIT_UNTIL(world, world->gone == 1);
}

static void two_copies_with_one_name_are_two_libraries(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *a = library_path(world, "a"), *b = library_path(world, "b");
	struct child first, second;

	write_library(a, 'a');
	write_library(b, 'k');
	world_start(world, config_default());
	first = child_start(body_map, a);
	second = child_start(body_map, b);
	child_hear(&first);
	child_hear(&second);
	WAIT_UNTIL(world, world->found == 2);
	check_resolves(world, first.pid, first.address, 'a');
	check_resolves(world, second.pid, second.address, 'k');
	child_end(&first);
	WAIT_UNTIL(world, world->gone == 1);
	child_end(&second);
	WAIT_UNTIL(world, world->gone == 2);
}

static void two_processes_share_one_library(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a");
	struct child first, second;

	write_library(path, 'a');
	world_start(world, config_default());
	first = child_start(body_map, path);
	second = child_start(body_map, path);
	child_hear(&first);
	child_hear(&second);
	WAIT_UNTIL(world, world->found == 1 && world->file->mappers == 2);
	child_end(&first);
	WAIT_UNTIL(world, world->processes_gone == 1);
	assert_int_equal(world->file->mappers, 1);
	child_end(&second);
	WAIT_UNTIL(world, world->gone == 1);
	assert_int_equal(world->found, 1);
}

static void deleted_library_is_found_and_can_be_read(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a");
	struct child child;

	write_library(path, 'a');
	child = child_start(body_map, path);
	child_hear(&child);
	unlink(path);
	write_library(path, 'k'); /* another file in its place */
	world_start(world, config_default());
	maps_scan(world->maps);
	assert_int_equal(world->found, 1);
	assert_string_equal(world->file->path, path);
	check_resolves(world, child.pid, child.address, 'a');
	child_end(&child);
}

static void body_exec(int say, int hear, const char *path)
{
	tell(say, map_file(path, NULL));
	await(hear);
	dup2(hear, 0); /* the program reads until we hang up */
	dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1);
	execl("/bin/cat", "cat", NULL);
	abort();
}

static void exec_ends_the_program_but_not_what_it_was(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	_cleanup_(freep) char *path = library_path(world, "a");
	struct maps_file *file;
	struct child child;
	uint64_t offset, before_ns;

	write_library(path, 'a');
	config.grace_ms = DEADLINE_MS;
	world_start(world, config);
	child = child_start(body_exec, path);
	child_hear(&child);
	WAIT_UNTIL(world, world->found == 1);
	assert_int_equal(maps_follow(world->maps, child.pid), 0);
	before_ns = uv_hrtime();
	child_say(&child);
	WAIT_UNTIL(world, world->file->mappers == 0);
	assert_int_equal(
		maps_resolve(world->maps, child.pid, before_ns, child.address, &file, &offset), 0);
	assert_ptr_equal(file, world->file);
	assert_int_equal(
		maps_resolve(world->maps, child.pid, uv_hrtime(), child.address, &file, &offset),
		-ENOENT);
	assert_int_equal(world->processes_gone, 0);
	child_end(&child);
	WAIT_UNTIL(world, world->processes_gone == 1); /* it was followed */
	maps_unfollow(world->maps, child.pid);
	assert_int_equal(
		maps_resolve(world->maps, child.pid, before_ns, child.address, &file, &offset),
		-ENOENT);
}

static void body_fork(int say, int hear, const char *path)
{
	void *address = map_file(path, NULL);
	pid_t parent = getpid();
	uint64_t pid = fork();

	if (pid == 0) {
		while (getppid() == parent)
			usleep(500);
		await(hear);
		_exit(0);
	}
	tell(say, address);
	tell(say, (void *)pid);
	await(hear); /* and leaves the child behind */
}

static void forked_child_keeps_the_library_of_its_parent(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	_cleanup_(freep) char *path = library_path(world, "a");
	struct child child;
	uint64_t address, pid;

	write_library(path, 'a');
	config.grace_ms = DEADLINE_MS;
	world_start(world, config);
	child = child_start(body_fork, path);
	child_hear(&child);
	address = child.address;
	child_hear(&child);
	pid = child.address;
	WAIT_UNTIL(world, world->found == 1 && world->file->mappers == 2);
	child_say(&child);
	WAIT_UNTIL(world, world->processes_gone == 1);
	assert_int_equal(world->gone_pid, child.pid);
	assert_int_equal(world->file->mappers, 1);
	assert_int_equal(maps_follow(world->maps, pid), 0);
	check_resolves(world, pid, address, 'a');
	child_end(&child);
	WAIT_UNTIL(world, world->processes_gone == 2);
	assert_int_equal(world->gone_pid, pid);
	check_resolves(world, pid, address, 'a'); /* also after its end */
	assert_int_equal(world->file->mappers, 0);
}

static void child_of_a_process_that_is_gone_before_we_look_is_seen(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a");
	struct child child;
	uint64_t address, pid;

	write_library(path, 'a');
	world_start(world, config_default());
	child = child_start(body_fork, path);
	child_hear(&child);
	address = child.address;
	child_hear(&child);
	pid = child.address;
	child_say(&child);
	assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
	WAIT_UNTIL(world, world->found == 1);
	assert_int_equal(world->found_pid, pid);
	assert_true(world->forked);
	assert_in_range(world->mapped_ns, 1, uv_hrtime());
	check_resolves(world, pid, address, 'a');
	child_say(&child);
	WAIT_UNTIL(world, world->gone == 1);
	close(child.say);
	close(child.hear);
}

static void body_map_over(int say, int hear, const char *path)
{
	void *address = mmap(NULL, 4 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	tell(say, map_file(path, address));
	await(hear);
	map_file("/proc/self/exe", (char *)address + 4096);
	tell(say, address);
	await(hear);
	mmap(address, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	tell(say, address);
	await(hear);
}

static void newest_mapping_wins(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a");
	struct maps_file *file;
	struct child child;
	uint64_t offset;

	write_library(path, 'a');
	world_start(world, config_default());
	child = child_start(body_map_over, path);
	child_hear(&child);
	maps_catch_up(world->maps);
	check_resolves(world, child.pid, child.address, 'a');
	child_say(&child);
	child_hear(&child);
	maps_catch_up(world->maps);
	assert_int_equal(maps_resolve(world->maps, child.pid, uv_hrtime(), child.address + 4096,
				      &file, &offset),
			 0);
	assert_ptr_not_equal(file, world->file);
	assert_int_equal(offset, 4096);
	assert_int_equal(maps_resolve(world->maps, child.pid, uv_hrtime(), child.address + 1, &file,
				      &offset),
			 0);
	assert_ptr_equal(file, world->file);
	child_say(&child);
	child_hear(&child);
	maps_catch_up(world->maps);
	assert_int_equal(maps_resolve(world->maps, child.pid, uv_hrtime(), child.address + 1, &file,
				      &offset),
			 -ENOENT);
	child_end(&child);
}

static void body_run_short(int say, int hear, const char *path)
{
	char fd[16];

	snprintf(fd, sizeof(fd), "%d", dup(say));
	execl("/proc/self/exe", "test_maps", "--short", path, fd, NULL);
	abort();
}

static void process_that_is_gone_before_we_look_is_known(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a");
	struct maps_file *file;
	struct child child;
	uint64_t offset, main_address;
	uint64_t before_ns = uv_hrtime(), after_ns;
	char program[PATH_MAX] = "";

	assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	write_library(path, 'a');
	world_start(world, config_default());
	child = child_start(body_run_short, path);
	child_hear(&child);
	main_address = child.address;
	child_hear(&child);
	child_end(&child); /* all this time the loop did not run */
	after_ns = uv_hrtime();
	assert_int_equal(maps_follow(world->maps, child.pid), 0);
	check_resolves(world, child.pid, child.address, 'a');
	assert_int_equal(
		maps_resolve(world->maps, child.pid, uv_hrtime(), main_address, &file, &offset), 0);
	assert_string_equal(file->path, program);
	assert_int_equal(world->found, 0);
	assert_int_equal(world->missed_pid, child.pid);
	assert_in_range(world->missed_ns, before_ns, after_ns);
	assert_int_equal(maps_follow(world->maps, 0x7ffffff0), -ESRCH);
}

static void file_that_took_the_place_of_a_mapped_one_is_not_taken_for_it(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a"), *other = library_path(world, "b");
	struct maps_file *file;
	struct child child;
	uint64_t offset;

	write_library(path, 'a');
	write_library(other, 'k');
	world_start(world, config_default());
	child = child_start(body_run_short, path);
	child_hear(&child);
	child_hear(&child);
	child_end(&child);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(maps_follow(world->maps, child.pid), 0); /* the program is still there */
	assert_int_equal(
		maps_resolve(world->maps, child.pid, uv_hrtime(), child.address, &file, &offset),
		-ENOENT);
}

static void body_contained(int say, int hear, const char *path)
{
	_cleanup_(freep) char *directory = strdup(path);
	void *address;

	if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
		_exit(77);
	if (fork() == 0) {
		*strrchr(directory, '/') = '\0';
		if (getpid() != 1 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("none", directory, "tmpfs", 0, NULL) < 0)
			_exit(1);
		write_library(path, 'k');
		address = map_file(path, NULL);
		tell(say, address);
		await(hear);
		_exit(0);
	}
	wait(NULL);
}

static void process_in_namespaces_of_its_own_is_seen_and_outlived(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	_cleanup_(freep) char *path = library_path(world, "a");
	struct child child;

	write_library(path, 'a'); /* what we see at that path */
	config.grace_ms = DEADLINE_MS;
	world_start(world, config);
	child = child_start(body_contained, path);
	child_hear(&child);
	WAIT_UNTIL(world, world->found == 1);
	assert_true(world->found_pid > 1 && world->found_pid != (uint32_t)child.pid);
	assert_string_equal(world->file->path, path);
	child_end(&child);
	WAIT_UNTIL(world, world->processes_gone == 1);
	assert_int_equal(world->gone_pid, world->found_pid);
	check_resolves(world, world->found_pid, child.address, 'k');
}

static int mount_overlay(struct world *world, const char *name)
{
	char options[512], part[128];
	const char *const parts[] = { "", ".u", ".w" };
	size_t i;

	for (i = 0; i < 3; i++) {
		snprintf(part, sizeof(part), "%s/%s%s", world->directory, name, parts[i]);
		mkdir(part, 0755);
	}
	snprintf(options, sizeof(options), "lowerdir=%s/lower,upperdir=%s/%s.u,workdir=%s/%s.w",
		 world->directory, world->directory, name, world->directory, name);
	snprintf(part, sizeof(part), "%s/%s", world->directory, name);
	return mount("overlay", part, "overlay", 0, options);
}

static void containers_over_one_image_share_its_library(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *lower = library_path(world, "lower");
	_cleanup_(freep) char *a = library_path(world, "a"), *b = library_path(world, "b");
	struct child first, second;

	write_library(lower, 'a');
	if (mount_overlay(world, "a") < 0)
		skip();
	assert_int_equal(mount_overlay(world, "b"), 0);
	world_start(world, config_default());
	first = child_start(body_map, a);
	second = child_start(body_map, b);
	child_hear(&first);
	child_hear(&second);
	WAIT_UNTIL(world, world->found == 1 && world->file->mappers == 2);
	child_end(&first);
	child_end(&second);
	WAIT_UNTIL(world, world->gone == 1);
	assert_int_equal(world->found, 1);
	*strrchr(a, '/') = *strrchr(b, '/') = '\0';
	umount2(a, MNT_DETACH);
	umount2(b, MNT_DETACH);
}

static void limits_hold_and_what_they_leave_out_is_counted(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	_cleanup_(freep) char *path = library_path(world, "a");
	struct child first, second;
	struct maps_stats stats;

	write_library(path, 'a');
	config.max_processes = 1;
	config.max_files = 2;
	world_start(world, config);
	first = child_start(body_map, path);
	child_hear(&first);
	WAIT_UNTIL(world, world->found == 1);
	maps_stats(world->maps, &stats);
	assert_int_equal(stats.files, 2);
	assert_int_equal(stats.limited, 0); /* the others gave way */
	assert_true(stats.mappings > 1);
	second = child_start(body_map, path);
	child_hear(&second);
	WAIT_UNTIL(world, (maps_stats(world->maps, &stats), stats.limited > 0));
	assert_int_equal(stats.processes, 1);
	assert_int_equal(world->file->mappers, 1);
	child_end(&first);
	child_end(&second);
}

static void lent_file_stays_open_until_it_is_given_back(void **state)
{
	struct world *world = *state;
	_cleanup_(freep) char *path = library_path(world, "a");
	struct maps_file *file;
	struct child child;
	char byte;

	write_library(path, 'a');
	world_start(world, config_default());
	child = child_start(body_map, path);
	child_hear(&child);
	WAIT_UNTIL(world, world->found == 1);
	file = maps_file_ref(world->file);
	child_end(&child);
	WAIT_UNTIL(world, world->gone == 1);
	maps_close(world->maps, on_maps_closed);
	WAIT_UNTIL(world, world->closed);
	world->maps = NULL;
	assert_int_equal(file->references, 1);
	assert_int_equal(pread(file->fd, &byte, 1, 0), 1);
	assert_int_equal(byte, 'a');
	assert_null(maps_file_unref(file));
}

static int short_main(char **argv)
{
	int say = atoi(argv[3]);

	tell(say, (void *)short_main);
	tell(say, map_file(argv[2], NULL));
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

/* The kernel's events have the host's times, which are not those of such a namespace. */
static bool clock_is_the_hosts(void)
{
	FILE *file = fopen("/proc/self/timens_offsets", "re");
	long seconds = 0;

	if (file && fscanf(file, "monotonic %ld", &seconds) != 1)
		seconds = 0;
	if (file)
		fclose(file);
	return seconds == 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(library_is_found_when_mapped_and_let_go_after_the_process),
		TEST(library_mapped_before_is_found_by_the_scan),
		TEST(without_perf_events_proc_is_read),
		TEST(two_copies_with_one_name_are_two_libraries),
		TEST(two_processes_share_one_library),
		TEST(deleted_library_is_found_and_can_be_read),
		TEST(exec_ends_the_program_but_not_what_it_was),
		TEST(forked_child_keeps_the_library_of_its_parent),
		TEST(child_of_a_process_that_is_gone_before_we_look_is_seen),
		TEST(newest_mapping_wins),
		TEST(process_that_is_gone_before_we_look_is_known),
		TEST(file_that_took_the_place_of_a_mapped_one_is_not_taken_for_it),
		TEST(process_in_namespaces_of_its_own_is_seen_and_outlived),
		TEST(containers_over_one_image_share_its_library),
		TEST(limits_hold_and_what_they_leave_out_is_counted),
		TEST(lent_file_stays_open_until_it_is_given_back),
	};

	if (argc == 4 && strcmp(argv[1], "--short") == 0)
		return short_main(argv);
	if (geteuid() != 0) {
		fprintf(stderr, "test_maps: skipped, needs root\n");
		return 77;
	}
	if (!clock_is_the_hosts()) {
		fprintf(stderr, "test_maps: skipped, needs the host's time namespace\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	snprintf(library_name, sizeof(library_name), "libgpu-%d.so.1", getpid());
	snprintf(patterns, sizeof(patterns), "nothing-* libgpu-%d.so.?", getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
