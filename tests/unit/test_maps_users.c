/* Users who map copies of the library: nobody keeps the others out. */
#include "maps_fixture.h"

#define GREEDY 54321
#define HONEST 54322

/* A process of user `uid` that maps each copy there is. */
static void map_copies(int say, int hear, const char *path, uid_t uid)
{
	char copy[160];

	if (setresuid(uid, uid, uid) < 0)
		_exit(1);
	for (int i = 0;; i++) {
		snprintf(copy, sizeof(copy), "%s%d/%s", path, i, library_name);
		if (access(copy, R_OK) < 0)
			break;
		map_file(copy, NULL);
	}
	tell(say, NULL);
	await(hear);
}

static void body_greedy(int say, int hear, const char *path)
{
	map_copies(say, hear, path, GREEDY);
}

static void body_honest(int say, int hear, const char *path)
{
	map_copies(say, hear, path, HONEST);
}

static void write_copies(struct world *world, const char *name, int count)
{
	char folder[16];

	for (int i = 0; i < count; i++) {
		_cleanup_(freep) char *path = NULL;

		snprintf(folder, sizeof(folder), "%s%d", name, i);
		path = library_path(world, folder);
		write_library(path, 'a');
	}
}

static void one_users_copies_leave_room_for_anothers(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	char greedys[80], honests[80];
	struct child greedy, honest;
	struct maps_stats stats;

	if (geteuid())
		skip();
	snprintf(greedys, sizeof(greedys), "%s/a", world->directory);
	snprintf(honests, sizeof(honests), "%s/b", world->directory);
	chmod(world->directory, 0755);
	write_copies(world, "a", 6);
	write_copies(world, "b", 1);
	config.max_libraries = 8;
	world_start(world, config);
	greedy = child_start(body_greedy, greedys);
	child_hear(&greedy);
	WAIT_UNTIL(world, world->found + world->refused >= 6);
	assert_int_equal(world->found, 4);
	assert_int_equal(world->refused_user, GREEDY);
	maps_stats(world->maps, &stats);
	assert_int_equal(stats.refused, world->refused);
	honest = child_start(body_honest, honests);
	child_hear(&honest);
	WAIT_UNTIL(world, world->found == 5);
	assert_int_equal(world->found_pid, honest.pid);
	child_end(&greedy);
	WAIT_UNTIL(world, world->gone == 4);
	child_end(&honest);
}

/* What has become free can be had again. */
static void slots_come_back_with_the_grace_time(void **state)
{
	struct world *world = *state;
	struct maps_config config = config_default();
	char copies[80];

	if (geteuid())
		skip();
	snprintf(copies, sizeof(copies), "%s/a", world->directory);
	chmod(world->directory, 0755);
	write_copies(world, "a", 2);
	config.max_libraries = 4;
	world_start(world, config);
	for (int i = 1; i <= 3; i++) {
		struct child child = child_start(body_greedy, copies);

		child_hear(&child);
		WAIT_UNTIL(world, world->found == 2 * i);
		child_end(&child);
		WAIT_UNTIL(world, world->gone == 2 * i);
	}
	assert_int_equal(world->refused, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_users_copies_leave_room_for_anothers),
		TEST(slots_come_back_with_the_grace_time),
	};

	snprintf(library_name, sizeof(library_name), "libgpu-%d.so.1", getpid());
	snprintf(patterns, sizeof(patterns), "nothing-* libgpu-%d.so.?", getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
