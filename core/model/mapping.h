/* mapping.h: what is mapped where in the address space of a process. */
#ifndef TS_CORE_MAPPING_H
#define TS_CORE_MAPPING_H

struct call;

/* These look at the op alone. */
void mapping_map(struct call *call);
void mapping_unmap(struct call *call);
void mapping_retain(struct call *call);

#endif
