/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Held: tells which processes that map a file have their memory's lock taken, whoever reads the
 * iterator. It takes no lock itself, also not that of the file's tree of mappings, which may change
 * under it: then it misses some, or looks at what was one, and never goes on for ever.
 */
#include "bpf/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/held.h"

#define STEPS_MAX   (1 << 18) /* three for a mapping */
#define COLOR	    3ul
#define VM_MAYEXEC  0x40
#define VM_MAYSHARE 0x80
#define RWSEM_WAIT  6 /* bits that say that somebody waits */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What a thread asks for, by its tid, and is answered. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HELD_READERS);
	__type(key, __u32);
	__type(value, struct held_look);
} looks SEC(".maps");

struct walk {
	struct rb_node *node, *before;
};

static long on_own(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct walk *walk = data;

	walk->node = BPF_CORE_READ(vma, vm_file, f_inode, i_mapping, i_mmap.rb_root.rb_node);
	return 0;
}

static struct held_look *look_of_reader(void)
{
	__u32 reader = (__u32)bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&looks, &reader);
}

/* Probes are put into mappings that may be executed and are not shared. */
static void visit(struct rb_node *node)
{
	struct vm_area_struct *vma =
		(void *)((char *)node - bpf_core_field_offset(struct vm_area_struct, shared.rb));
	struct task_struct *self = (struct task_struct *)bpf_get_current_task();
	struct mm_struct *mm = BPF_CORE_READ(vma, vm_mm);
	struct held_process *process;
	struct held_look *look;

	if ((BPF_CORE_READ(vma, vm_flags) & (VM_MAYEXEC | VM_MAYSHARE)) != VM_MAYEXEC)
		return;
	if (mm == BPF_CORE_READ(self, mm) ||
	    !(BPF_CORE_READ(mm, mmap_lock.count.counter) & ~RWSEM_WAIT))
		return;
	look = look_of_reader();
	if (!look || look->count >= HELD_MAX)
		return;
	process = &look->process[look->count & (HELD_MAX - 1)];
	process->memory = (__u64)mm;
	process->owner = (__u64)BPF_CORE_READ(mm, mmap_lock.owner.counter);
	process->pid = bpf_core_field_exists(mm->owner) ? (__u32)BPF_CORE_READ(mm, owner, tgid) : 0;
	look->count++;
}

/* First down to the left, then to the right, then up: whence it came tells which. */
static long step(__u32 i, void *data)
{
	struct walk *walk = data;
	struct rb_node *node = walk->node, *left, *right, *up;

	if (!node)
		return 1;
	left = BPF_CORE_READ(node, rb_left);
	right = BPF_CORE_READ(node, rb_right);
	up = (struct rb_node *)(BPF_CORE_READ(node, __rb_parent_color) & ~COLOR);
	if (walk->before == up) {
		visit(node);
		walk->node = left ? left : right ? right : up;
	} else {
		walk->node = walk->before == left && right ? right : up;
	}
	walk->before = node;
	return 0;
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
	if (!look || bpf_find_vma(bpf_get_current_task_btf(), look->address, on_own, &walk, 0))
		return 0;
	bpf_loop(STEPS_MAX, step, &walk, 0);
	look->done = !walk.node;
	return 0;
}
