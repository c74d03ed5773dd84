/* Fake work: operations, streams, events, capture and graphs. Part of fake.h. */
#pragma once

/* --- op.c ------------------------------------------------------------------------------- */

uint64_t op_scaled(uint64_t ns);
uint64_t op_copy_bytes(const struct copy *copy);
uint64_t op_duration(const struct op *op);
/* The effect on memory, events and pools; not for host functions and graphs. */
void op_apply(struct op *op, uint64_t end_ns);
void op_describe(struct fake_op_info *info, const struct op *op, const struct stream *stream);

/* --- copy.c, set.c, launch.c: calls that become operations -------------------------------- */

CUresult copy_shape_3d(struct op *op, const CUDA_MEMCPY3D *params);
CUresult copy_linear(CUdeviceptr dst, CUdeviceptr src, size_t bytes, enum fake_copy_kind kind,
		     CUstream stream, bool wait);
CUresult copy_peer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
		   size_t bytes, CUstream stream, bool wait);
CUresult copy_2d(const CUDA_MEMCPY2D *params, CUstream stream, bool wait);
CUresult copy_3d(const CUDA_MEMCPY3D *params, CUstream stream, bool wait);
CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *params, CUstream stream, bool wait);
CUresult set_shape(struct op *op, CUdeviceptr dst, size_t pitch, uint32_t value,
		   uint32_t element_bytes, size_t width, size_t height);
CUresult set_linear(CUdeviceptr dst, uint32_t value, uint32_t element_bytes, size_t count,
		    CUstream stream, bool wait);
CUresult set_2d(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t element_bytes, size_t width,
		size_t height, CUstream stream, bool wait);
CUresult launch_shape(struct op *op, struct function *function, const uint32_t grid[3],
		      const uint32_t block[3], uint32_t shared_bytes);
CUresult launch_kernel(CUfunction function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
		       uint32_t block_x, uint32_t block_y, uint32_t block_z, uint32_t shared_bytes,
		       CUstream stream, void **parameter);
CUresult launch_config(const CUlaunchConfig *config, CUfunction function, CUstream stream_default);
CUresult launch_host(CUstream stream, CUhostFn fn, void *user);

/* --- stream.c --------------------------------------------------------------------------- */

/* The stream behind a handle, the special handles included; NULL if there is none. */
struct stream *stream_resolve(CUstream handle);
CUresult stream_new(struct stream **ret, struct context *context, unsigned int flags, int priority,
		    bool legacy);
void stream_delete(struct stream *stream);
/* Deletes it now, or lets the engine do so after the queued work. */
void stream_retire(struct stream *stream);
/* Captures the operation, runs it at once or queues it. With wait, returns when it is done. */
CUresult stream_submit(struct stream *stream, struct op *op, bool wait);
void stream_wait_head(struct stream *stream, uint64_t target);
void stream_unpin(struct stream *stream);
bool stream_is_idle(const struct stream *stream);
bool stream_is_blocking(const struct stream *stream);
CUresult stream_create(CUstream *ret, unsigned int flags, int priority);
CUresult stream_destroy(CUstream handle);
CUresult stream_sync(CUstream handle);
CUresult stream_query(CUstream handle);
CUresult stream_wait_event(CUstream handle, CUevent event, unsigned int flags);
CUresult stream_add_callback(CUstream handle, CUstreamCallback callback, void *user,
			     unsigned int flags);
CUresult stream_get_priority(CUstream handle, int *priority);
CUresult stream_get_flags(CUstream handle, unsigned int *flags);
CUresult stream_get_id(CUstream handle, unsigned long long *id);
CUresult stream_get_device(CUstream handle, CUdevice *device);
CUresult stream_get_context(CUstream handle, CUcontext *context);

/* --- engine.c --------------------------------------------------------------------------- */

/* Both with the stream's lock held. */
void engine_add(struct stream *stream);
void engine_run_inline(struct stream *stream, struct op *op);
/* Something happened that may let a waiting stream go on. */
void engine_kick(void);

/* --- event.c ---------------------------------------------------------------------------- */

struct event *event_check(CUevent handle);
void event_reach(struct event *event, uint64_t generation, uint64_t now_ns);
void event_put(struct event *event);
CUresult event_create(CUevent *ret, unsigned int flags);
CUresult event_destroy(CUevent handle);
CUresult event_record(CUevent handle, CUstream stream, unsigned int flags);
CUresult event_query(CUevent handle);
CUresult event_sync(CUevent handle);
CUresult event_elapsed(float *ms, CUevent start, CUevent end);

/* --- capture.c -------------------------------------------------------------------------- */

/* All with the stream's lock held. */
CUresult capture_add(struct stream *stream, const struct op *op);
void capture_record_event(struct stream *stream, struct event *event);
CUresult capture_join(struct stream *stream, struct event *event);
/* A call that may not be made now in this thread because of a capture. */
CUresult capture_forbids(void);
CUresult capture_invalidate(struct stream *stream, CUresult error);
CUresult capture_begin(CUstream handle, CUstreamCaptureMode mode);
CUresult capture_end(CUstream handle, CUgraph *ret);
CUresult capture_status(CUstream handle, CUstreamCaptureStatus *status);
CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
		      CUgraph *graph, const CUgraphNode **dependencies, size_t *count);
CUresult capture_exchange_mode(CUstreamCaptureMode *mode);

/* --- graph.c, exec.c -------------------------------------------------------------------- */

struct node {
	struct object object;
	struct graph *graph;
	struct node *next;
	CUgraphNodeType type;
	struct op op;
	struct node **deps;
	size_t deps_count;
	size_t index; /* while instantiating */
	bool marked;  /* while a capture ends */
};

struct graph {
	struct object object;
	struct node *first, *last;
	size_t count;
};

/* Adds a node that depends on deps. */
CUresult graph_append(struct node **ret, struct graph *graph, CUgraphNodeType type,
		      const struct op *op, struct node *const *deps, size_t deps_count);
struct graph *graph_new(void);
void graph_delete(struct graph *graph);
CUresult graph_create(CUgraph *ret, unsigned int flags);
CUresult graph_destroy(CUgraph handle);
CUresult graph_add_kernel(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			  const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUresult graph_add_kernel_v2(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps,
			     size_t count, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult graph_add_copy(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			const CUDA_MEMCPY3D *params);
CUresult graph_add_set(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
		       const CUDA_MEMSET_NODE_PARAMS *params);
CUresult graph_add_host(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			const CUDA_HOST_NODE_PARAMS *params);
CUresult graph_add_child(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			 CUgraph child);
CUresult graph_add_empty(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count);
CUresult graph_add_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
			 size_t count);
CUresult graph_get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count);
CUresult graph_node_get_type(CUgraphNode handle, CUgraphNodeType *type);

uint32_t exec_id(const struct exec *exec);
bool exec_has_host(const struct exec *exec);
uint64_t exec_duration(const struct exec *exec);
/* Applies all nodes; stamps them from start_ns on. Called by the engine. */
void exec_run(struct exec *exec, const struct op *op, const struct stream *stream,
	      uint64_t start_ns);
void exec_put(struct exec *exec);
CUresult graph_instantiate(CUgraphExec *ret, CUgraph handle, unsigned long long flags);
CUresult graph_instantiate_params(CUgraphExec *ret, CUgraph handle,
				  CUDA_GRAPH_INSTANTIATE_PARAMS *params);
CUresult graph_upload(CUgraphExec handle, CUstream stream);
CUresult graph_launch(CUgraphExec handle, CUstream stream);
CUresult graph_exec_destroy(CUgraphExec handle);
