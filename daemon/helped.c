/* Helped: what the daemon's helpers do, and what waits for their answers: the descriptions of
 * processes, and stacks whose process's mappings are not known yet. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/daemon_internal.h"
#include "daemon/helper/spawn.h"
#include "daemon/maps/look.h"
#include "daemon/proc/opener.h"
#include "daemon/proc/owner.h"
#include "daemon/proc/procfs.h"
#include "daemon/python/pythons_helper.h"
#include "daemon/stack/helper.h"
#include "daemon/symbol/lines_helper.h"

/* A query waits for an answer this long, and no longer for who hangs. */
#define VISIBLE_NS     (50 * NS_PER_MS)
#define DESCRIBE_TRIES 8
enum { KIND_LOOK, KIND_DESCRIBE, KIND_LINES, KIND_ATTACH, KIND_PYTHON, KIND_STACK, KINDS };

static int look_say(void *data, char *message, size_t size, const int *fd, uint32_t fds)
{
	return helper_say(*(int *)data, message, size, fd, fds);
}

static int run_look(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	return maps_look(request, size, look_say, &socket);
}

static int run_describe(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	struct procfs_process found;
	uint32_t pid;
	int r;

	if (size != sizeof(pid))
		return -EBADMSG;
	memcpy(&pid, request, sizeof(pid));
	r = procfs_read(pid, &found);
	return r < 0 ? r : helper_say(socket, &found, sizeof(found), NULL, 0);
}

static const struct helper_kind kinds[KINDS] = {
	[KIND_LOOK] = { .run = run_look, .per_user = LIMIT_HELPERS_PER_UID },
	[KIND_DESCRIBE] = { .run = run_describe, .per_user = LIMIT_HELPERS_PER_UID },
	[KIND_LINES] = { .run = lines_look,
			 .per_user = LIMIT_LINES_HELPERS,
			 .once = true,
			 .may_die = true },
	[KIND_ATTACH] = { .run = exact_helper_run,
			  .per_user = LIMIT_HELPERS_PER_UID,
			  .once = true,
			  .undoes = true,
			  .traces = true },
	[KIND_PYTHON] = { .run = pythons_help, .per_user = 1, .keeps = true },
	[KIND_STACK] = { .run = stack_help, .per_user = LIMIT_HELPERS_PER_UID, .keeps = true },
};

static_assert(MAPS_LOOK_MESSAGE <= HELPER_MESSAGE && MAPS_LOOK_FILES <= SPAWN_FDS,
	      "what looks makes fits");
static_assert(sizeof(struct pythons_order) <= HELPER_MESSAGE, "so do frames");

void daemon_help(int socket)
{
	if (opener_start(OPENER_OF_HELPER, socket) == 0 && daemon_confine_helper() == 0)
		helper_run(socket, false);
}

void daemon_help_attaching(int socket)
{
	helper_run(socket, true);
}

void daemon_name_helpers(void)
{
	helper_kinds(kinds, KINDS);
}

int daemon_start_helpers(struct daemon *daemon)
{
	static const struct pythons_callbacks pythons = { daemon_python_found,
							  daemon_python_named };
	const struct helper_roles roles = { ROLE_HELPER, ROLE_ATTACH };
	int r;

	list_init(&daemon->describing);
	list_init(&daemon->unresolved);
	r = helpers_new(&daemon->loop, fcntl(daemon->zygote, F_DUPFD_CLOEXEC, 3), roles,
			&daemon->helpers);
	if (r == 0)
		r = lines_new(daemon->helpers, KIND_LINES, daemon_stack_lined, daemon,
			      &daemon->lines);
	return r < 0 ? r
		     : pythons_new(daemon->helpers, KIND_PYTHON, &pythons, daemon,
				   &daemon->pythons);
}

void daemon_configure_maps(struct daemon *daemon, struct maps_config *config)
{
	config->helpers = daemon->helpers;
	config->look_kind = KIND_LOOK;
}

uint32_t daemon_attach_kind(void)
{
	return KIND_ATTACH;
}

uint32_t daemon_stack_kind(void)
{
	return KIND_STACK;
}

/* A process that is being described. */
struct describing {
	struct helper_task task;
	struct list link;
	struct daemon *daemon;
	uint32_t process;
	uint64_t started_ticks, asked_ns;
	uint32_t pid, tries;
	bool stale;	/* it runs another program now */
	bool announced; /* its command line came with its event, in full */
};

static void on_described(struct helper_task *task, const void *data, size_t size, int *fd,
			 uint32_t fds)
{
	struct describing *describing = list_item(task, struct describing, task);
	struct store_process_detail detail = { 0 };
	struct procfs_process found;

	/* A pid that belongs to somebody else by now: only the kernel's event is left. */
	if (!procfs_take(data, size, &found) || found.started_ticks != describing->started_ticks ||
	    describing->stale)
		return;
	detail.command = found.command[0] && !describing->announced ? found.command : NULL;
	detail.cgroup = found.cgroup[0] ? found.cgroup : NULL;
	detail.container = found.container[0] ? found.container : NULL;
	detail.variables = found.variables[0] ? found.variables : NULL;
	store_add_process_detail(describing->daemon->store, describing->process, &detail);
	daemon_stir(describing->daemon);
}

static int ask_description(struct describing *describing)
{
	describing->tries++;
	return helpers_ask(describing->daemon->helpers, &describing->task, &describing->pid,
			   sizeof(describing->pid), NULL, 0);
}

/* A helper that was killed is no reason to know nothing of a process. */
static void on_description_over(struct helper_task *task, int result)
{
	struct describing *describing = list_item(task, struct describing, task);

	if (result == -EPIPE && describing->tries < DESCRIBE_TRIES &&
	    ask_description(describing) == 0)
		return;
	list_remove(&describing->link);
	free(describing);
}

void daemon_describe(struct daemon *daemon, const struct core_process *process)
{
	struct describing *describing = calloc(1, sizeof(*describing)), *other;

	if (!describing)
		return;
	list_for_each(other, &daemon->describing, link)
		if (other->process == process->id)
			other->stale = true;
	describing->daemon = daemon;
	describing->process = process->id;
	describing->pid = process->pid;
	describing->started_ticks = process->started_ticks;
	describing->asked_ns = uv_hrtime();
	describing->announced = daemon->announced.pid == process->pid && daemon->announced.whole;
	describing->task = (struct helper_task){ .kind = KIND_DESCRIBE,
						 .uid = owner_of(process->pid, process->uid),
						 .deadline_ms = LIMIT_MAPS_LOOK_MS,
						 .message = on_described,
						 .done = on_description_over };
	list_append(&daemon->describing, &describing->link);
	if (ask_description(describing) < 0)
		on_description_over(&describing->task, 0);
}

/* A stack whose addresses cannot be looked up yet. */
struct unresolved {
	struct list link;
	uint32_t pid, process, user;
	uint64_t came_ns;
	struct ts_stack stack; /* with its frames */
};

bool daemon_resolve_later(struct daemon *daemon, const struct core_process *process,
			  const struct ts_stack *stack)
{
	size_t native = stack->python_count ? TS_STACK_FRAMES_MAX : stack->frame_count;
	size_t frames = native * sizeof(stack->frame[0]) +
			stack->python_count * sizeof(struct ts_python_frame);
	struct unresolved *unresolved;

	if (daemon->unresolved_count >= LIMIT_SYMBOL_JOBS)
		return false;
	unresolved = malloc(sizeof(*unresolved) + frames);
	if (!unresolved)
		return false;
	unresolved->pid = process->pid;
	unresolved->process = process->id;
	unresolved->user = process->user;
	unresolved->came_ns = uv_hrtime();
	memcpy(&unresolved->stack, stack, sizeof(*stack) + frames);
	list_append(&daemon->unresolved, &unresolved->link);
	daemon->unresolved_count++;
	return true;
}

static void unresolved_free(struct daemon *daemon, struct unresolved *unresolved)
{
	list_remove(&unresolved->link);
	daemon->unresolved_count--;
	free(unresolved);
}

void daemon_on_settled(void *data, uint32_t pid)
{
	struct daemon *daemon = data;
	struct unresolved *unresolved;

	list_for_each(unresolved, &daemon->unresolved, link) {
		const struct core_process process = { .pid = pid,
						      .id = unresolved->process,
						      .user = unresolved->user };

		if (unresolved->pid != pid ||
		    daemon_resolve(daemon, &process, &unresolved->stack) == -EAGAIN)
			continue;
		unresolved_free(daemon, unresolved);
	}
	daemon_miss_settled(daemon, pid);
}

static bool is_new(uint64_t since_ns, uint64_t now_ns)
{
	return now_ns - since_ns < VISIBLE_NS;
}

bool daemon_awaits_helpers(struct daemon *daemon)
{
	uint64_t now_ns = uv_hrtime();
	struct describing *describing;
	struct unresolved *unresolved;

	list_for_each(describing, &daemon->describing, link)
		if (is_new(describing->asked_ns, now_ns))
			return true;
	list_for_each(unresolved, &daemon->unresolved, link)
		if (is_new(unresolved->came_ns, now_ns))
			return true;
	return false;
}

void daemon_stop_helpers(struct daemon *daemon, void (*closed)(void *data))
{
	struct describing *describing;
	struct unresolved *unresolved;

	if (!daemon->helpers)
		return;
	list_for_each(describing, &daemon->describing, link) {
		helpers_cancel(daemon->helpers, &describing->task);
		on_description_over(&describing->task, 0);
	}
	list_for_each(unresolved, &daemon->unresolved, link)
		unresolved_free(daemon, unresolved);
	daemon->lines = lines_free(daemon->lines);
	helpers_close(TAKE(daemon->helpers), closed, daemon);
}
