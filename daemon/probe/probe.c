/* Probe: the BPF programs while the daemon runs, and what they and we share. */
#include "daemon/probe/probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/patience.h"
#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/probe/held.h"
#include "daemon/probe/hooked.h"
#include "daemon/probe/internal.h"

#define KERNEL_MIN_MAJOR 5
#define KERNEL_MIN_MINOR 15

__attribute__((format(printf, 2, 0))) static int probe_print(enum libbpf_print_level level,
							     const char *format, va_list ap)
{
	char line[1024];
	int n = vsnprintf(line, sizeof(line), format, ap);

	while (n > 0 && n < (int)sizeof(line) && line[n - 1] == '\n')
		line[--n] = '\0';
	/* libbpf warns about every feature that it only tries. */
	log_debug("%s", line);
	return n;
}

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t bss_size(void)
{
	return (sizeof(struct probe_bpf__bss) + page_size() - 1) / page_size() * page_size();
}

static int probe_check_kernel(void)
{
	struct utsname name;
	int major = 0, minor = 0;

	uname(&name);
	if (sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
	    (major > KERNEL_MIN_MAJOR || (major == KERNEL_MIN_MAJOR && minor >= KERNEL_MIN_MINOR)))
		return 0;
	log_error("Kernel %s is too old: %d.%d or newer is needed", name.release, KERNEL_MIN_MAJOR,
		  KERNEL_MIN_MINOR);
	return -EOPNOTSUPP;
}

static void probe_readable(uv_poll_t *poll, int status, int events)
{
	struct probe *probe = poll->data;
	struct epoll_event event;

	epoll_wait(probe->wakes_fd, &event, 1, 0); /* or it stays readable */
	probe->heard_ns = uv_hrtime();
	intake_wake(probe->intake);
}

bool probe_config_same_filters(const struct probe_config *a, const struct probe_config *b)
{
	return a->pid_count == b->pid_count && a->uid_count == b->uid_count &&
	       a->cgroup_count == b->cgroup_count && !memcmp(a->pid, b->pid, sizeof(a->pid)) &&
	       !memcmp(a->uid, b->uid, sizeof(a->uid)) &&
	       !memcmp(a->cgroup, b->cgroup, sizeof(a->cgroup));
}

struct probe_freed *probe_freed(struct probe *probe)
{
	return probe->bss->codes_freed;
}

uint32_t probe_rule_mask(const struct probe *probe)
{
	const char *sets = getenv("TRACESMITH_RULE_SETS");
	uint32_t slots = sets ? 2 * (uint32_t)strtoul(sets, NULL, 10) : RULE_SLOTS;

	return slots && slots <= RULE_SLOTS ? slots - 1 : RULE_SLOTS - 1;
}

void probe_configure(struct probe *probe, const struct probe_config *config)
{
	struct probe_settings *settings = &probe->bss->settings;

	settings->stack_depth = config->stack_depth;
	settings->unwind = config->unwind;
	settings->rule_mask = probe_rule_mask(probe);
	settings->check_walks = getenv("TRACESMITH_CHECK_WALKS") != NULL; /* in tests */
	settings->python_depth = config->python_depth;
	settings->autograd = config->backward;
	/* That of the start: a block is followed to its end. */
	settings->tensor_bytes = probe->config.tensor_bytes;
	settings->sample_ns = config->samples_per_s ? NS_PER_S / config->samples_per_s : ~0ull;
	settings->events_per_s = config->events_per_s;
	settings->wake_bytes = (uint32_t)(probe->config.ring_bytes / 4);
	settings->reserve_bytes = probe->config.ring_bytes / 8;
	memcpy(settings->pid, config->pid, sizeof(settings->pid));
	memcpy(settings->uid, config->uid, sizeof(settings->uid));
	memcpy(settings->cgroup, config->cgroup, sizeof(settings->cgroup));
	settings->pid_count = config->pid_count;
	settings->uid_count = config->uid_count;
	settings->cgroup_count = config->cgroup_count;
	__sync_synchronize();
	settings->generation++;
}

int probe_choose_stacks(struct probe *probe, uint32_t pid, enum probe_choice choice)
{
	int map = probe->map[BROKER_CHOICES];
	uint32_t value = choice;
	int r;

	if (choice == PROBE_CHOICE_DEFAULT)
		r = bpf_map_delete_elem(map, &pid);
	else
		r = bpf_map_update_elem(map, &pid, &value, BPF_ANY);
	if (r && errno != ENOENT)
		return -errno;
	__sync_synchronize();
	probe->bss->settings.generation++;
	return 0;
}

uint64_t probe_sample_ns(const struct probe *probe)
{
	return probe->bss->settings.sample_ns;
}

void probe_place_python(struct probe *probe, uint32_t pid, const struct ts_python *python)
{
	bpf_map_update_elem(probe->map[BROKER_PYTHONS], &pid, python, BPF_ANY);
	__sync_synchronize();
	probe->bss->settings.generation++;
}

bool probe_python(const struct probe *probe, uint32_t pid, struct ts_python *ret)
{
	return bpf_map_lookup_elem(probe->map[BROKER_PYTHONS], &pid, ret) == 0;
}

void probe_walks(const struct probe *probe, struct probe_walks *ret)
{
	const struct probe_settings *settings = &probe->bss->settings;

	*ret = (struct probe_walks){
		.by_rules = settings->unwind,
		.autograd = settings->autograd,
		.check = settings->check_walks,
		.depth = settings->stack_depth,
		.python_depth = settings->python_depth,
	};
}

struct rule_slot *probe_rules(struct probe *probe)
{
	return probe->bss->rules;
}

/* False: the map is full. */
static bool renew(struct probe *probe, uint32_t pid, bool rules)
{
	int map = probe->map[BROKER_MAPPINGS];
	struct probe_epochs epochs = { 0 };

	bpf_map_lookup_elem(map, &pid, &epochs);
	*(rules ? &epochs.rules : &epochs.ids) = ++probe->mappings;
	if (bpf_map_update_elem(map, &pid, &epochs, BPF_ANY))
		return false;
	__sync_synchronize();
	probe->bss->settings.generation++;
	return true;
}

void probe_forget_rules(struct probe *probe, uint32_t pid)
{
	if (renew(probe, pid, true))
		return;
	/* Then those of all processes are void. */
	probe->bss->settings.rule_epoch++;
	__sync_synchronize();
	probe->bss->settings.generation++;
}

bool probe_renew_stacks(struct probe *probe, uint32_t pid)
{
	return renew(probe, pid, false);
}

bool probe_seeds(const struct probe *probe, uint32_t pid, struct probe_seeds *ret)
{
	struct probe_process process;
	struct probe_epochs epochs;

	if (bpf_map_lookup_elem(probe->map[BROKER_MAPPINGS], &pid, &epochs) ||
	    bpf_map_lookup_elem(probe->map[BROKER_PROCESSES], &pid, &process) ||
	    memcmp(&epochs, &process.epochs, sizeof(epochs)) != 0)
		return false;
	*ret = (struct probe_seeds){ .stacks = process.ids, .rules = process.rules };
	return true;
}

bool probe_rule(const struct probe *probe, const struct probe_seeds *seeds, uint64_t address,
		struct rule *ret)
{
	return rule_find(probe->bss->rules, probe->bss->settings.rule_mask,
			 rule_key(seeds->rules, address, 1), ret);
}

bool probe_add_stack(struct probe *probe, uint32_t pid, uint64_t id)
{
	return !bpf_map_update_elem(probe->map[BROKER_STACKS_SENT], &id, &pid, BPF_NOEXIST);
}

void probe_go_on(struct probe *probe)
{
	if (!probe->lane.stalled)
		return;
	intake_lane_stall(&probe->lane, false);
	intake_wake(probe->intake);
}

void probe_go_on_with(struct probe *probe, uint32_t tgid)
{
	if (!probe->parking.count)
		return;
	parking_go_on(&probe->parking, tgid, false);
	intake_wake(probe->intake);
}

void probe_wait_no_longer(struct probe *probe)
{
	parking_all_go_on(&probe->parking);
	probe_go_on(probe);
}

struct probe *probe_free(struct probe *probe)
{
	if (!probe)
		return NULL;
	backlog_clear(&probe->backlog);
	quota_release(&probe->parking.bytes);
	closep(&probe->wakes_fd);
	ring_buffer__free(probe->ring);
	if (probe->written_to) {
		munmap((void *)probe->read_to, page_size());
		munmap((void *)probe->written_to, page_size());
	}
	if (probe->bss)
		munmap(probe->bss, bss_size());
	for (size_t i = 0; i < BROKER_MAPS; i++)
		closep(&probe->map[i]);
	held_free(probe->held);
	hooked_free(probe->hooked);
	free(probe);
	return NULL;
}
CLEANUP_DEFINE(struct probe, probe_free)

/* Of the ring's two first pages: libbpf 1.1 has them, and tells nobody. Without them it counts as
 * crowded. */
static void probe_map_positions(struct probe *probe)
{
	int fd = probe->map[BROKER_EVENTS];
	void *read_to = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);
	void *written_to = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, (off_t)page_size());

	if (read_to != MAP_FAILED && written_to != MAP_FAILED) {
		probe->read_to = read_to;
		probe->written_to = written_to;
		return;
	}
	if (read_to != MAP_FAILED)
		munmap(read_to, page_size());
	if (written_to != MAP_FAILED)
		munmap(written_to, page_size());
}

/* What the programs and we share. */
static int probe_map_settings(struct probe *probe)
{
	void *bss = mmap(NULL, bss_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
			 probe->map[BROKER_BSS], 0);

	if (bss == MAP_FAILED)
		return -errno;
	probe->bss = bss;
	return 0;
}

/* By the broker's trial there may be none. */
static void probe_take_returns(struct probe *probe)
{
	const enum trial_result result = (enum trial_result)probe->programs.returns;

	if (result == TRIAL_SURVIVED)
		return;
	returns_none(&probe->config.returns);
	log_warning_errno(-probe->programs.returns_error, "%s", trial_text(result));
}

static int probe_load(struct probe *probe)
{
	int r = broker_load(probe->broker, probe->config.way, probe->config.ring_bytes,
			    &probe->programs, probe->map);

	if (r < 0)
		return log_error_errno(
			r, "Failed to load the BPF programs%s",
			r == -EPERM ? " (run as root, or with CAP_BPF and CAP_PERFMON)" : "");
	r = probe_map_settings(probe);
	if (r < 0)
		return log_error_errno(r, "Failed to share the settings with BPF");
	probe_configure(probe, &probe->config);
	probe_map_positions(probe);
	probe_take_returns(probe);
	probe->ring = ring_buffer__new(probe->map[BROKER_EVENTS], probe_record, probe, NULL);
	return probe->ring ? 0 : log_error_errno(-errno, "Failed to read the ring of BPF");
}

/* For wake-ups only: as long as events come, the ring is hardly ever empty. */
static int probe_listen(struct probe *probe)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	probe->wakes_fd = epoll_create1(EPOLL_CLOEXEC);
	if (probe->wakes_fd < 0 ||
	    epoll_ctl(probe->wakes_fd, EPOLL_CTL_ADD, probe->map[BROKER_EVENTS], &event) < 0)
		return log_error_errno(-errno, "Failed to be woken by the ring of BPF");
	return 0;
}

int probe_new(uv_loop_t *loop, struct intake *intake, struct broker *broker,
	      const struct probe_config *config, const struct probe_callbacks *callbacks,
	      void *data, struct probe **ret)
{
	_cleanup_(probe_freep) struct probe *probe = calloc(1, sizeof(*probe));
	int r;

	if (!probe)
		return -ENOMEM;
	probe->config = *config;
	probe->callbacks = *callbacks;
	probe->data = data;
	probe->intake = intake;
	memset(probe->map, -1, sizeof(probe->map));
	probe->wakes_fd = -1;
	backlog_init(&probe->backlog, LIMIT_PROBE_BACKLOG);
	parking_init(&probe->parking, LIMIT_PROBE_PARKED_BYTES,
		     patience_ms(LIMIT_PROBE_PARKED_MS) * NS_PER_MS);
	probe->broker = broker;
	probe->lane.give = probe_give;
	probe->lane.data = probe;
	libbpf_set_print(probe_print);
	r = probe_check_kernel();
	if (r < 0)
		return r;
	r = probe_load(probe);
	if (r < 0)
		return r;
	probe->held = held_new(broker);
	probe->hooked = hooked_new(broker);
	r = probe_listen(probe);
	if (r < 0)
		return r;
	r = uv_poll_init(loop, &probe->readable, probe->wakes_fd);
	if (r < 0)
		return r;
	uv_poll_start(&probe->readable, UV_READABLE, probe_readable);
	probe->readable.data = probe;
	intake_lane_open(&probe->lane, intake, INTAKE_PROBES, uv_hrtime());
	intake_attach(intake, INTAKE_PROBES, probe_on_turn, probe);
	intake_wake(intake);
	*ret = TAKE(probe);
	return 0;
}

static void probe_handle_closed(uv_handle_t *handle)
{
	struct probe *probe = handle->data;

	if (probe->closed)
		probe->closed(probe->data);
}

void probe_close(struct probe *probe, void (*closed)(void *data))
{
	probe->closed = closed;
	intake_attach(probe->intake, INTAKE_PROBES, NULL, NULL);
	intake_lane_close(&probe->lane);
	parking_clear(&probe->parking);
	uv_close((uv_handle_t *)&probe->readable, probe_handle_closed);
}

static void probe_add_counters(struct probe_counters *total, const struct probe_counters *cpu)
{
#define X(name, text) total->name += cpu->name;
	PROBE_COUNTERS(X)
	PROBE_FIGURES(X)
#undef X
}

/* Taken: what is lost between the two, without the one call for both, is in the total alone. */
static bool take_losses(int map, uint32_t pid, struct probe_counters *ret)
{
	if (!bpf_map_lookup_and_delete_elem(map, &pid, ret))
		return true;
	return !bpf_map_lookup_elem(map, &pid, ret) && !bpf_map_delete_elem(map, &pid);
}

void probe_take_losses(struct probe *probe,
		       void (*each)(void *data, uint32_t pid, const struct probe_counters *lost),
		       void *data)
{
	int map = probe->map[BROKER_LOSERS];
	struct probe_counters lost;
	uint32_t pid;

	for (int i = 0; i < PROBE_LOSERS_MAX && !bpf_map_get_next_key(map, NULL, &pid); i++) {
		if (take_losses(map, pid, &lost))
			each(data, pid, &lost);
	}
}

void probe_stats(struct probe *probe, struct probe_stats *ret, struct probe_counters *per_cpu,
		 uint32_t max)
{
	_cleanup_(freep) struct probe_counters *cpu = NULL;
	struct probe_stats stats = {
		.way = (enum probe_way)probe->programs.way,
		.single = probe->programs.single,
		.returns = (enum trial_result)probe->programs.returns,
		.returns_error = probe->programs.returns_error,
		.without_return = returns_without(&probe->config.returns),
		.records = probe->records,
		.bytes = probe->bytes,
		.parked = probe->parking.count,
		.ring_bytes = probe->config.ring_bytes,
		.cpus = (uint32_t)libbpf_num_possible_cpus(),
	};
	uint32_t zero = 0;

	cpu = calloc(stats.cpus, sizeof(*cpu));
	if (cpu && !bpf_map_lookup_elem(probe->map[BROKER_COUNTERS], &zero, cpu)) {
		for (uint32_t i = 0; i < stats.cpus; i++) {
			probe_add_counters(&stats.total, &cpu[i]);
			if (per_cpu && i < max)
				per_cpu[i] = cpu[i];
		}
	}
	stats.total.dropped += probe->unkept;
	*ret = stats;
}
