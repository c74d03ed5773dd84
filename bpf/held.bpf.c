/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Held: tells which processes that map a file have their memory's lock taken, whoever reads the
 * iterator. It takes no lock itself.
 */
#include "bpf/mappings.bpf.h"

#include <bpf/bpf_tracing.h>

#include "bpf/held.h"

#define RWSEM_WAIT 6 /* the bits for waiters */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What a thread asks for, by its tid, and is answered. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HELD_READERS);
	__type(key, __u32);
	__type(value, struct held_look);
} looks SEC(".maps");

static struct held_look *look_of_reader(void)
{
	__u32 reader = (__u32)bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&looks, &reader);
}

static void visit(struct walk *walk, struct vm_area_struct *vma, struct mm_struct *mm)
{
	struct held_process *process;
	struct held_look *look;

	if (!(BPF_CORE_READ(mm, mmap_lock.count.counter) & ~RWSEM_WAIT))
		return;
	look = look_of_reader();
	if (!look || look->count >= HELD_MAX)
		return;
	process = &look->process[look->count & (HELD_MAX - 1)];
	process->memory = (__u64)mm;
	process->owner = (__u64)BPF_CORE_READ(mm, mmap_lock.owner.counter);
	process->pid = owner_of(mm);
	look->count++;
}

SEC("iter/task")
int held(struct bpf_iter__task *ctx)
{
	struct walk walk = {};
	struct held_look *look;
	struct mm_struct *mm = NULL;

	if (!ctx->task || ctx->meta->seq_num || !bpf_core_field_exists(mm->mmap_lock.count))
		return 0;
	look = look_of_reader();
	if (look)
		look->done = walk_mappings(&walk, file_of_reader(look->address));
	return 0;
}
