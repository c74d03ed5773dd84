/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* mappings.bpf.h: goes through the mappings of a file, of all processes. It takes no lock, also not
 * that of the file's tree of mappings, which may change under it: then it misses some, or looks at
 * what was one, and never goes on for ever.
 */
#ifndef TS_MAPPINGS_BPF_H
#define TS_MAPPINGS_BPF_H

#include "bpf/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define STEPS_MAX   (1 << 18) /* three for a mapping */
#define COLOR	    3ul
#define VM_EXEC	    0x4
#define VM_MAYEXEC  0x40
#define VM_MAYSHARE 0x80
#define EBUSY	    16
#define TRIES	    8 /* to get a lock that is not waited for */

struct walk {
	struct rb_node *node, *before;
	struct seq_file *seq; /* output, if the program has any */
	struct {
		__u64 mm, start, end, offset;
	} wanted; /* a single one, if the program looks for it; offset: in the file */
};

/* The program's own: for each mapping that probes are put into, of another process. */
static void visit(struct walk *walk, struct vm_area_struct *vma, struct mm_struct *mm);

static __always_inline long find_vma(struct task_struct *task, __u64 address, void *found,
				     void *data)
{
	long r = -EBUSY;

	for (int i = 0; i < TRIES && r == -EBUSY; i++)
		r = bpf_find_vma(task, address, found, data, 0);
	return r;
}

static long on_own(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct address_space **file = data;

	*file = BPF_CORE_READ(vma, vm_file, f_inode, i_mapping);
	return 0;
}

/* The file that the reader has mapped at `address`. */
static __always_inline struct address_space *file_of_reader(__u64 address)
{
	struct address_space *file = NULL;

	find_vma(bpf_get_current_task_btf(), address, on_own, &file);
	return file;
}

/* Probes are put into mappings that may be executed and are not shared. */
static void visit_node(struct walk *walk, struct rb_node *node)
{
	struct vm_area_struct *vma =
		(void *)((char *)node - bpf_core_field_offset(struct vm_area_struct, shared.rb));
	struct task_struct *self = (struct task_struct *)bpf_get_current_task();
	struct mm_struct *mm = BPF_CORE_READ(vma, vm_mm);

	if ((BPF_CORE_READ(vma, vm_flags) & (VM_MAYEXEC | VM_MAYSHARE)) == VM_MAYEXEC &&
	    mm != BPF_CORE_READ(self, mm))
		visit(walk, vma, mm);
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
		visit_node(walk, node);
		walk->node = left ? left : right ? right : up;
	} else {
		walk->node = walk->before == left && right ? right : up;
	}
	walk->before = node;
	return 0;
}

/* False: not all were seen. */
static __always_inline bool walk_mappings(struct walk *walk, struct address_space *file)
{
	if (!file)
		return false;
	walk->node = BPF_CORE_READ(file, i_mmap.rb_root.rb_node);
	bpf_loop(STEPS_MAX, step, walk, 0);
	return !walk->node;
}

static __always_inline __u32 owner_of(struct mm_struct *mm)
{
	return bpf_core_field_exists(mm->owner) ? (__u32)BPF_CORE_READ(mm, owner, tgid) : 0;
}

#endif
