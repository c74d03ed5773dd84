/* Object: what libbpf makes of the programs, without libbpf's own memory, which is twenty times as
 * much: some MiB. */
#include "daemon/broker/object.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "bpf/held.skel.h"
#include "bpf/hooked.skel.h"
#include "bpf/probe.skel.h"
#include "bpf/task.skel.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/broker/link.h"
#include "daemon/library/library.h"

#define ATTACH_TYPE_MULTI 48		   /* BPF_TRACE_UPROBE_MULTI, of kernels since 6.6 */
#define CALIBRATED	  "cuLaunchKernel" /* most hits are its, and it has the most arguments */
#define BITS		  8
#define OWN_PATH	  "/proc/self/exe"

CLEANUP_DEFINE(struct probe_bpf, probe_bpf__destroy)
CLEANUP_DEFINE(struct held_bpf, held_bpf__destroy)
CLEANUP_DEFINE(struct hooked_bpf, hooked_bpf__destroy)
CLEANUP_DEFINE(struct task_bpf, task_bpf__destroy)

static int open_bpf(bool multi, uint64_t ring_bytes, uint64_t secret, struct probe_bpf **ret)
{
	_cleanup_(probe_bpf__destroyp) struct probe_bpf *bpf = probe_bpf__open();
	int r;

	if (!bpf)
		return -errno;
	bpf_map__set_max_entries(bpf->maps.events, (uint32_t)ring_bytes);
	bpf->rodata->ring_bytes = ring_bytes;
	bpf->rodata->rules_secret = secret;
	if (multi) {
		bpf_program__set_expected_attach_type(bpf->progs.enter, ATTACH_TYPE_MULTI);
		bpf_program__set_expected_attach_type(bpf->progs.leave, ATTACH_TYPE_MULTI);
		bpf_program__set_expected_attach_type(bpf->progs.note, ATTACH_TYPE_MULTI);
		bpf_program__set_expected_attach_type(bpf->progs.inside, ATTACH_TYPE_MULTI);
		bpf_program__set_expected_attach_type(bpf->progs.freed, ATTACH_TYPE_MULTI);
	}
	r = probe_bpf__load(bpf);
	if (r < 0)
		return r;
	*ret = TAKE(bpf);
	return 0;
}

/* The programs of one way cannot be used for the other. */
static int load_bpf(enum probe_way way, uint64_t ring_bytes, struct broker_programs *told,
		    struct probe_bpf **ret)
{
	_cleanup_(probe_bpf__destroyp) struct probe_bpf *bpf = NULL;
	int r = open_bpf(way != PROBE_WAY_PERF, ring_bytes, told->secret, &bpf), program;

	if (r < 0)
		return r;
	program = bpf_program__fd(bpf->progs.enter);
	told->way = PROBE_WAY_PERF;
	if (way != PROBE_WAY_PERF && link_multi_works(program)) {
		told->way = PROBE_WAY_MULTI;
		told->single = link_single_works(program);
	} else if (way == PROBE_WAY_MULTI) {
		return -EOPNOTSUPP;
	} else if (way == PROBE_WAY_AUTO) {
		probe_bpf__destroy(TAKE(bpf));
		r = open_bpf(false, ring_bytes, told->secret, &bpf);
	}
	*ret = TAKE(bpf);
	return r;
}

/* A return of a thread that has entered nothing is nothing to the program. */
static int link_trial(const struct probe_bpf *bpf, enum probe_way way, const struct trial *trial)
{
	_cleanup_(closep) int own = open(OWN_PATH, O_RDONLY | O_CLOEXEC);
	const uint64_t offset = trial_place(), cookie = PROBE_COOKIE(PROBE_CALIBRATION, 0);
	const struct link_places places = {
		.program = bpf_program__fd(bpf->progs.leave),
		.file = own,
		.leave = true,
		.pid = (uint32_t)trial->pid,
		.count = 1,
		.offset = &offset,
		.cookie = &cookie,
	};

	if (own < 0)
		return -errno;
	return way == PROBE_WAY_MULTI ? link_multi(&places) : link_perf(&places);
}

static void try_returns(const struct probe_bpf *bpf, struct trial *trial, struct object *object)
{
	struct broker_programs *told = &object->told;
	_cleanup_(closep) int link =
		trial->socket < 0 ? trial->socket : link_trial(bpf, told->way, trial);

	told->returns = (uint8_t)trial_run(trial, link, &told->returns_error);
	if (told->returns != TRIAL_SURVIVED)
		returns_none(&object->returns);
}

static int put_desc(int map, uint32_t number, const struct probe_desc *desc)
{
	return bpf_map_update_elem(map, &number, desc, BPF_ANY) ? -errno : 0;
}

/* A lost event of the calibration would be counted as the program's: so none may be. */
static int put_calibration(int map, const struct library_function *function)
{
	struct probe_desc desc;

	library_probe_desc(function, &desc);
	desc.flags = (desc.flags & PROBE_SPILLED) | PROBE_KEEP;
	desc.kernel_arg = 0;
	return put_desc(map, PROBE_CALIBRATION, &desc);
}

static int put_descs(int map, const struct returns *returns)
{
	const struct library_row *row;
	struct probe_desc desc;
	int r = 0;

	for (size_t i = 0; (row = library_get(i)); i++)
		for (size_t k = 0; r == 0 && k < row->count; k++) {
			const struct library_function *function = &row->function[k];

			returns_probe_desc(returns, function, &desc);
			r = put_desc(map, function->number, &desc);
			if (r == 0 && strcmp(function->model.name, CALIBRATED) == 0)
				r = put_calibration(map, function);
		}
	return r;
}

static int find_field(const struct btf *btf, const struct btf_type *type, const char *name,
		      uint32_t *ret)
{
	const struct btf_member *member = btf_members(type);

	for (uint32_t i = 0; i < btf_vlen(type); i++, member++) {
		if (strcmp(btf__name_by_offset(btf, member->name_off), name) != 0)
			continue;
		*ret = btf_member_bit_offset(type, i) / BITS;
		return 0;
	}
	return -ENOENT;
}

/* Only BPF programs know the struct, so the programs' types are asked. */
static int find_fields(const struct probe_bpf *bpf, struct broker_programs *told)
{
	const struct btf *btf = bpf_object__btf(bpf->obj);
	int id = btf ? btf__find_by_name_kind(btf, "thread", BTF_KIND_STRUCT) : -ENOENT;
	const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);

	told->thread_size = bpf_map__value_size(bpf->maps.threads);
	if (!type || find_field(btf, type, "depth", &told->thread_depth) < 0 ||
	    find_field(btf, type, "call", &told->thread_call) < 0)
		return -ENOENT;
	return find_field(btf, type, "call_sp", &told->thread_sp);
}

static int attach(const struct probe_bpf *bpf, struct object *object)
{
	const struct {
		const struct bpf_program *program;
		bool needed; /* how long workers wait is good to know, no more */
	} rows[OBJECT_LINKS] = {
		[OBJECT_PROCESS_EXIT] = { bpf->progs.process_exit, true },
		[OBJECT_PROCESS_EXEC] = { bpf->progs.process_exec, true },
		[OBJECT_WORKER_QUEUE] = { bpf->progs.worker_queue, false },
		[OBJECT_WORKER_START] = { bpf->progs.worker_start, false },
	};
	int *link = object->link;

	for (size_t i = 0; i < OBJECT_LINKS; i++) {
		struct bpf_link *made = bpf_program__attach(rows[i].program);

		if (!made && rows[i].needed)
			return -errno;
		link[i] = made ? fcntl(bpf_link__fd(made), F_DUPFD_CLOEXEC, 0) : -1;
		bpf_link__destroy(made);
	}
	object->told.workers = link[OBJECT_WORKER_QUEUE] >= 0 && link[OBJECT_WORKER_START] >= 0;
	return 0;
}

static int keep(int fd, int *ret)
{
	*ret = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return *ret < 0 ? -errno : 0;
}

static int keep_all(const struct probe_bpf *bpf, struct object *object)
{
	const struct {
		int fd, *to;
	} rows[] = {
		{ bpf_map__fd(bpf->maps.events), &object->map[BROKER_EVENTS] },
		{ bpf_map__fd(bpf->maps.choices), &object->map[BROKER_CHOICES] },
		{ bpf_map__fd(bpf->maps.mappings), &object->map[BROKER_MAPPINGS] },
		{ bpf_map__fd(bpf->maps.processes), &object->map[BROKER_PROCESSES] },
		{ bpf_map__fd(bpf->maps.pythons), &object->map[BROKER_PYTHONS] },
		{ bpf_map__fd(bpf->maps.stacks_sent), &object->map[BROKER_STACKS_SENT] },
		{ bpf_map__fd(bpf->maps.hits), &object->map[BROKER_HITS] },
		{ bpf_map__fd(bpf->maps.sums), &object->map[BROKER_SUMS] },
		{ bpf_map__fd(bpf->maps.notes), &object->map[BROKER_NOTES] },
		{ bpf_map__fd(bpf->maps.counters), &object->map[BROKER_COUNTERS] },
		{ bpf_map__fd(bpf->maps.losers), &object->map[BROKER_LOSERS] },
		{ bpf_map__fd(bpf->maps.threads), &object->map[BROKER_THREADS] },
		{ bpf_map__fd(bpf->maps.bss), &object->map[BROKER_BSS] },
		{ bpf_program__fd(bpf->progs.enter), &object->program[OBJECT_ENTER] },
		{ bpf_program__fd(bpf->progs.leave), &object->program[OBJECT_LEAVE] },
		{ bpf_program__fd(bpf->progs.note), &object->program[OBJECT_NOTE] },
		{ bpf_program__fd(bpf->progs.inside), &object->program[OBJECT_INSIDE] },
		{ bpf_program__fd(bpf->progs.freed), &object->program[OBJECT_FREED] },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
		r = keep(rows[i].fd, rows[i].to);
	return r;
}

int object_load(enum probe_way way, uint64_t ring_bytes, struct trial *trial,
		const struct returns *returns, struct object *ret)
{
	_cleanup_(probe_bpf__destroyp) struct probe_bpf *bpf = NULL;
	struct object object = { .returns = *returns };
	int r;

	if (getrandom(&object.told.secret, sizeof(object.told.secret), 0) !=
	    sizeof(object.told.secret))
		return -errno;
	r = load_bpf(way, ring_bytes, &object.told, &bpf);
	if (r < 0)
		return r;
	try_returns(bpf, trial, &object);
	r = put_descs(bpf_map__fd(bpf->maps.descs), &object.returns);
	if (r == 0)
		r = find_fields(bpf, &object.told);
	if (r == 0)
		r = attach(bpf, &object);
	if (r == 0)
		r = keep_all(bpf, &object);
	if (r == 0)
		*ret = object;
	return r;
}

static int make_link(const struct bpf_program *program)
{
	return bpf_link_create(bpf_program__fd(program), 0, BPF_TRACE_ITER, NULL);
}

static int make_iterator(const struct bpf_program *program, const struct bpf_map *map, int *ret)
{
	_cleanup_(closep) int link = make_link(program);
	int r = link < 0 ? link : keep(bpf_map__fd(map), &ret[1]);

	if (r < 0)
		return r;
	ret[0] = TAKE_FD(link);
	return 0;
}

int object_look(int *ret)
{
	_cleanup_(task_bpf__destroyp) struct task_bpf *bpf = task_bpf__open_and_load();

	return bpf ? make_iterator(bpf->progs.task_registers, bpf->maps.wanted, ret) : -errno;
}

int object_held(int *ret)
{
	_cleanup_(held_bpf__destroyp) struct held_bpf *bpf = held_bpf__open_and_load();

	return bpf ? make_iterator(bpf->progs.held, bpf->maps.looks, ret) : -errno;
}

int object_hooked(int *ret)
{
	_cleanup_(hooked_bpf__destroyp) struct hooked_bpf *bpf = hooked_bpf__open_and_load();
	_cleanup_(closep) int link = bpf ? make_link(bpf->progs.hooked) : -errno;
	int r = link < 0 ? link : make_iterator(bpf->progs.touched, bpf->maps.looks, ret);

	if (r < 0)
		return r;
	ret[2] = TAKE_FD(link);
	return 0;
}
