/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* python.h: where a Python has what a walk reads of it. */
#ifndef TS_PROTO_PYTHON_H
#define TS_PROTO_PYTHON_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define TS_PYTHON_CHECK 11 /* words of a code object that tell it apart */

/* Where PyTorch has which node of its autograd a thread makes or runs: in thread-local variables.
 */
struct ts_autograd {
	__u32 module; /* number of the library's block in the thread's vector (glibc), 0: none */
	__u32 next;   /* bytes, in the block: the number that the next node gets */
	__u32 node;   /* likewise: the node that is run now */
	__u32 thread; /* likewise: the number of the thread, 0 until it has made a node */
	__u32 number; /* bytes, in a node: what is looked at of it */
};
/* In words: a node's number, and that of the thread that has made it, which counts its nodes. */
enum { TS_AUTOGRAD_NUMBER = 0, TS_AUTOGRAD_THREAD = 3, TS_AUTOGRAD_WORDS };

/* Where the Python of a process has the frames of a thread. In words, unless it says bytes. */
struct ts_python {
	__u64 started_ticks; /* of the process, as in /proc */
	__u32 state;	     /* bytes from the thread pointer to that of the thread's state */
	__u32 frame;	     /* bytes, in that: the innermost frame */
	__u32 indirect;	     /* bytes, in what that points to; TS_PYTHON_DIRECT: it is it */
	__u16 check;	     /* bytes, in a code object, of what tells it apart */
	__u8 size;	     /* of what is looked at of a frame: */
	__u8 code, previous, position;
	__u8 mark, mark_shift; /* a byte that says how the interpreter got here */
	__u8 marks;	       /* enum ts_python_marks */
	__u8 index;	       /* 1: the position is an int */
	__u8 tags;	       /* bits of where the code is that are none of the address */
	__u8 reserved;
	__u16 freed; /* 1 + its place in codes_freed; 0: it has none */
	struct ts_autograd autograd;
};
#define TS_PYTHON_DIRECT ~0u

enum ts_python_marks {
	TS_PYTHON_ALL,	   /* every frame has entered the interpreter */
	TS_PYTHON_ENTERED, /* one with a mark has */
	TS_PYTHON_SHIMS,   /* frames with the mark 3 are of no function: one is behind each that
				 has */
};
#define TS_PYTHON_SHIM 3 /* as LAYOUT_OWNED_BY_C_STACK */

#endif
