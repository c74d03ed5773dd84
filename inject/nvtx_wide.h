/* nvtx_wide.h: wide texts of NVTX, which CUPTI does not accept. */
#ifndef TS_INJECT_NVTX_WIDE_H
#define TS_INJECT_NVTX_WIDE_H

/* After CUPTI has put its functions into the tables of an NVTX client. */
void nvtx_widen(void *get_export_table);

#endif
