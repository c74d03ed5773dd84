/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Hooked: two iterators. The first lists the mappings that may differ from their file; the second
 * compares them where a probe would go and lists the processes whose code differs. Neither returns
 * any of the code.
 */
#include "bpf/mappings.bpf.h"

#include <bpf/bpf_tracing.h>

#include "bpf/hooked.h"

#define HALVINGS   12 /* enough to search HOOKED_RANGES */
#define BREAKPOINT 0xcc

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What a thread asks for, by its tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HOOKED_READERS);
	__type(key, __u32);
	__type(value, struct hooked_look);
} looks SEC(".maps");

static struct hooked_look *look_of_reader(void)
{
	__u32 reader = (__u32)bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&looks, &reader);
}

static void visit_wanted(struct walk *walk, struct vm_area_struct *vma, struct mm_struct *mm)
{
	if ((__u64)mm != walk->wanted.mm || BPF_CORE_READ(vma, vm_start) != walk->wanted.start)
		return;
	walk->wanted.end = BPF_CORE_READ(vma, vm_end);
	walk->wanted.offset = BPF_CORE_READ(vma, vm_pgoff) << 12;
}

/* A mapping of a file has pages of its own only with an anon_vma; data always has. */
static void visit(struct walk *walk, struct vm_area_struct *vma, struct mm_struct *mm)
{
	struct hooked_range range = {};

	if (!BPF_CORE_READ(vma, anon_vma) || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC))
		return;
	if (walk->wanted.mm) {
		visit_wanted(walk, vma, mm);
		return;
	}
	range.start = BPF_CORE_READ(vma, vm_start);
	range.pid = owner_of(mm);
	bpf_seq_write(walk->seq, &range, sizeof(range));
}

SEC("iter/task")
int touched(struct bpf_iter__task *ctx)
{
	struct walk walk = { .seq = ctx->meta->seq };
	struct hooked_look *look;

	if (!ctx->task || ctx->meta->seq_num)
		return 0;
	look = look_of_reader();
	if (look)
		look->done = walk_mappings(&walk, file_of_reader(look->address));
	return 0;
}

struct check {
	struct task_struct *task;
	struct seq_file *seq;
	struct address_space *file;
	__u64 range, code; /* arrays */
	__u32 ranges, codes;
	__u32 at; /* the first range of the process */
	__u32 differs, busy;
	__u64 locked;		  /* the start of a mapping that could not be looked for */
	__u64 start, end, offset; /* of the current mapping; offset: in the file */
};

/* A breakpoint is a probe's or a debugger's. */
static bool same(const __u8 *byte, const __u8 *expected, __u32 size)
{
	for (__u32 i = 0; i < HOOKED_CODE; i++)
		if (i < size && byte[i] != expected[i] && byte[i] != BREAKPOINT)
			return false;
	return true;
}

static long on_code(__u32 i, void *data)
{
	struct check *check = data;
	struct hooked_code code;
	__u8 byte[HOOKED_CODE] = {}; /* for the verifier of old kernels */
	__u32 size;
	__u64 at;

	if (bpf_copy_from_user(&code, sizeof(code), (const void *)(check->code + i * sizeof(code))))
		return 1;
	size = code.size;
	if (!size || size > HOOKED_CODE || code.offset < check->offset)
		return 0;
	at = check->start + (code.offset - check->offset);
	if (at + size > check->end)
		return 0;
	/* What cannot be read, its owner has done something to. */
	if (bpf_copy_from_user_task(byte, size, (const void *)at, check->task, 0) ||
	    !same(byte, code.byte, size))
		check->differs = 1;
	return check->differs != 0;
}

/* Limits what a compromised reader can learn: only executable mappings of the file that it has
 * mapped itself are compared. */
static long on_mapping(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct check *check = data;

	if (!(BPF_CORE_READ(vma, vm_flags) & VM_EXEC) ||
	    BPF_CORE_READ(vma, vm_file, f_inode, i_mapping) != check->file)
		return 0;
	check->start = BPF_CORE_READ(vma, vm_start);
	check->end = BPF_CORE_READ(vma, vm_end);
	check->offset = BPF_CORE_READ(vma, vm_pgoff) << 12;
	return 0;
}

static long on_range(__u32 i, void *data)
{
	struct check *check = data;
	struct hooked_range range;

	if (check->at + i >= check->ranges ||
	    bpf_copy_from_user(&range, sizeof(range),
			       (const void *)(check->range + (check->at + i) * sizeof(range))) ||
	    range.pid != (__u32)check->task->tgid)
		return 1;
	check->start = check->end = 0;
	if (find_vma(check->task, range.start, on_mapping, check) == -EBUSY) {
		check->busy |= check->locked != 0;
		check->locked = range.start;
		return 0;
	}
	if (check->end)
		bpf_loop(check->codes, on_code, check, 0);
	return check->differs != 0;
}

/* Where threads map memory all the time their lock is always taken. */
static void check_locked(struct check *check)
{
	struct task_struct *task = check->task;
	struct walk walk = { .seq = check->seq };

	walk.wanted.mm = (__u64)BPF_CORE_READ(task, mm);
	walk.wanted.start = check->locked;
	if (walk.wanted.mm)
		walk_mappings(&walk, check->file);
	check->start = check->locked;
	check->end = walk.wanted.end;
	check->offset = walk.wanted.offset;
	/* Not found: it was unmapped, or the tree of mappings changed during the walk. */
	if (check->end)
		bpf_loop(check->codes, on_code, check, 0);
	else
		check->busy = 1;
}

static __u32 pid_of_range(const struct hooked_look *look, __u32 i)
{
	struct hooked_range range = {};

	bpf_copy_from_user(&range, sizeof(range), (const void *)(look->range + i * sizeof(range)));
	return range.pid;
}

/* The first range of a process, or of one behind it. On its own for the verifier, which else looks
 * at the rest of the program once for each way through this. */
__noinline int find_range(const struct hooked_look *look, __u32 pid)
{
	__u32 low = 0, high;

	if (!look)
		return 0;
	high = look->ranges;

	for (int i = 0; i < HALVINGS; i++) {
		__u32 middle = (low + high) / 2;

		if (low >= high)
			break;
		if (pid_of_range(look, middle) < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return (int)low;
}

/* One thread stands for its process: the first one, or any if that has ended. */
static bool is_to_check(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm) &&
	       (task->pid == task->tgid || !BPF_CORE_READ(task, group_leader, mm));
}

SEC("iter.s/task")
int hooked(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct check check = {};
	struct hooked_found found = {};
	struct hooked_look *look;
	__u32 pid;

	if (!task || !is_to_check(task))
		return 0;
	look = look_of_reader();
	if (!look)
		return 0;
	pid = (__u32)task->tgid;
	check.at = (__u32)find_range(look, pid);
	if (check.at >= look->ranges || pid_of_range(look, check.at) != pid)
		return 0;
	check.task = task;
	check.seq = ctx->meta->seq; /* a 6.1 verifier wants it for all that could be visited */
	check.file = file_of_reader(look->address);
	check.range = look->range;
	check.code = look->code;
	check.ranges = look->ranges;
	check.codes = look->codes;
	if (check.file)
		bpf_loop(HOOKED_RANGES, on_range, &check, 0);
	if (check.locked && !check.differs)
		check_locked(&check);
	if ((check.differs || check.busy || !check.file) && BPF_CORE_READ(task, mm)) {
		found.pid = pid;
		found.busy = !check.differs;
		bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	}
	return 0;
}
