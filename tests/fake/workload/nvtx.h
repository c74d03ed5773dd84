/* NVTX: a client of our own for programs that are to make NVTX calls without NVIDIA's headers. It
 * does what those do: the first call loads what NVTX_INJECTION64_PATH names and lets it fill the
 * tables; without it every call does nothing. */
#pragma once

#include <stdint.h>
#include <wchar.h>

int nvtx_push(const char *text);
int nvtx_pop(void);
void nvtx_mark(const char *text);
uint64_t nvtx_start(const char *text);
void nvtx_end(uint64_t id);
void *nvtx_domain(const char *name);
int nvtx_domain_push(void *domain, const char *text, uint32_t color, uint64_t payload);
int nvtx_domain_pop(void *domain);
/* The same with wide texts: plain, of an attribute, and registered with a domain that has one. */
int nvtx_push_wide(const wchar_t *text);
void nvtx_mark_wide(const wchar_t *text);
uint64_t nvtx_start_wide(const wchar_t *text);
void *nvtx_domain_wide(const wchar_t *name);
int nvtx_domain_push_wide(void *domain, const wchar_t *text);
int nvtx_domain_push_registered(void *domain, const wchar_t *text);
int nvtx_push_ex_wide(const wchar_t *text);
/* An injection library has taken us. */
int nvtx_taken(void);
