/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* vmlinux.h: the kernel types and fields that the programs use, and no others.
 *
 * CO-RE finds the real offsets when the programs are loaded, so the build needs neither kernel
 * headers nor BTF.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;
enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_USER_STACK = 1 << 8,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

/* The registers at the probe are the program's context; their layout is the architecture's ABI. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip,
		cs, flags, sp, ss;
};

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	atomic_t live;
};

typedef struct {
	long counter;
} atomic_long_t;

struct rw_semaphore {
	atomic_long_t count, owner;
};

struct mm_struct {
	unsigned long start_stack, arg_start, arg_end;
	struct rw_semaphore mmap_lock;
	struct task_struct *owner;
};

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right, *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct address_space {
	struct rb_root_cached i_mmap;
};

struct inode {
	struct address_space *i_mapping;
};

struct file {
	struct inode *f_inode;
};

struct anon_vma;

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	struct anon_vma *anon_vma;
	unsigned long vm_pgoff;
	struct file *vm_file;
	struct {
		struct rb_node rb;
	} shared;
};

struct thread_struct {
	unsigned long fsbase;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct user_namespace {
	struct user_namespace *parent;
	int level;
	kuid_t owner;
};

struct cred {
	struct user_namespace *user_ns;
};

struct task_struct {
	struct mm_struct *mm;
	const struct cred *cred;
	struct thread_struct thread;
	int pid, tgid;
	int exit_code;
	__u64 start_boottime;
	__u64 self_exec_id;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct pid *thread_pid;
	struct signal_struct *signal;
	int on_cpu;
	unsigned long nvcsw, nivcsw;
	char comm[16];
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct workqueue_attrs {
	int nice;
};

struct worker_pool {
	int cpu;
	unsigned int flags;
	struct workqueue_attrs *attrs;
};

struct pool_workqueue {
	struct worker_pool *pool;
};

#pragma clang attribute pop

#endif
