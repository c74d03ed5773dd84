/* Steps: a training-like loop whose every step copies a batch in, multiplies matrices and adds the
 * result up, in variants that 'tsctl replay' predicts from a recording of the first:
 *
 *   steps base STEPS SIZE KERNELS MIB: a copy of so many MiB and so many pairs of kernels, on
 *     matrices of SIZE by SIZE, on one stream;
 *   steps overlap …: the batch of the next step is copied on a second stream meanwhile;
 *   steps graph …: a step is one graph;
 *   steps streams …: two chains of work, on streams that wait for each other with events;
 *   steps serial …: so many kernels of SIZE blocks that only compute, on one stream;
 *   steps spread …: the same on four streams.
 *
 * Each starts with two steps as of base, or serial, for what is loaded at the first launch. The last line says
 * how many milliseconds the others took. */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#include "check.h"

#define TILE 16
#define WARM 2 /* steps */
#define SPREAD 4 /* streams */
#define ROUNDS 20000 /* of a kernel that computes: some 50 us */

__global__ void multiply(const float *a, const float *b, float *c, int size)
{
	__shared__ float left[TILE][TILE], right[TILE][TILE];
	int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
	float sum = 0;

	for (int i = 0; i < size; i += TILE) {
		left[threadIdx.y][threadIdx.x] = a[y * size + i + threadIdx.x];
		right[threadIdx.y][threadIdx.x] = b[(i + threadIdx.y) * size + x];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += left[threadIdx.y][k] * right[k][threadIdx.x];
		__syncthreads();
	}
	c[y * size + x] = sum;
}

__global__ void add(float *to, const float *from, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		to[i] += from[i];
}

__global__ void walk(float *to, float from)
{
	float value = from + threadIdx.x;

	for (int i = 0; i < ROUNDS; i++)
		value = value * 0.999f + 1.0f;
	if (value < 0) /* never: it is here so that the loop is */
		*to = value;
}

static float *batch[2], *weights, *result, *sum, *host;
static int size, kernels;
static size_t batch_bytes;

static void compute(const float *in, cudaStream_t stream)
{
	dim3 block(TILE, TILE), grid(size / TILE, size / TILE);

	for (int i = 0; i < kernels; i++) {
		multiply<<<grid, block, 0, stream>>>(in, weights, result, size);
		add<<<(size * size + 255) / 256, 256, 0, stream>>>(sum, result, size * size);
	}
	CHECK(cudaGetLastError());
}

static void load(float *to, cudaStream_t stream)
{
	CHECK(cudaMemcpyAsync(to, host, batch_bytes, cudaMemcpyHostToDevice, stream));
}

static void run_base(int steps, cudaStream_t stream)
{
	for (int i = 0; i < steps; i++) {
		load(batch[0], stream);
		compute(batch[0], stream);
		CHECK(cudaStreamSynchronize(stream));
	}
}

static void run_overlap(int steps, cudaStream_t stream)
{
	cudaStream_t copies;
	cudaEvent_t loaded;

	CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&loaded, cudaEventDisableTiming));
	load(batch[0], copies);
	for (int i = 0; i < steps; i++) {
		CHECK(cudaEventRecord(loaded, copies));
		CHECK(cudaStreamWaitEvent(stream, loaded, 0));
		compute(batch[i % 2], stream);
		if (i + 1 < steps)
			load(batch[(i + 1) % 2], copies);
		CHECK(cudaStreamSynchronize(stream));
	}
}

static void run_graph(int steps, cudaStream_t stream)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	load(batch[0], stream);
	compute(batch[0], stream);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < steps; i++) {
		CHECK(cudaGraphLaunch(exec, stream));
		CHECK(cudaStreamSynchronize(stream));
	}
}

static void run_streams(int steps, cudaStream_t stream)
{
	cudaStream_t other;
	cudaEvent_t begun, done;

	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&begun, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
	for (int i = 0; i < steps; i++) {
		load(batch[0], stream);
		CHECK(cudaEventRecord(begun, stream));
		CHECK(cudaStreamWaitEvent(other, begun, 0));
		compute(batch[0], stream);
		load(batch[1], other);
		add<<<8, 256, 0, other>>>(sum, batch[1], 8 * 256);
		CHECK(cudaEventRecord(done, other));
		CHECK(cudaStreamWaitEvent(stream, done, 0));
		CHECK(cudaStreamSynchronize(stream));
	}
}

static void run_serial(int steps, cudaStream_t stream)
{
	for (int i = 0; i < steps; i++) {
		for (int k = 0; k < kernels; k++)
			walk<<<size, 256, 0, stream>>>(sum, (float)k);
		CHECK(cudaStreamSynchronize(stream));
	}
}

static void run_spread(int steps, cudaStream_t stream)
{
	cudaStream_t streams[SPREAD];

	for (int i = 0; i < SPREAD; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
	for (int i = 0; i < steps; i++) {
		for (int k = 0; k < kernels; k++)
			walk<<<size, 256, 0, streams[k % SPREAD]>>>(sum, (float)k);
		for (int k = 0; k < SPREAD; k++)
			CHECK(cudaStreamSynchronize(streams[k]));
	}
}

static const struct {
	const char *name;
	void (*run)(int steps, cudaStream_t stream);
} variants[] = {
	{ "base", run_base },
	{ "overlap", run_overlap },
	{ "graph", run_graph },
	{ "streams", run_streams },
	{ "serial", run_serial },
	{ "spread", run_spread },
};

static int number(int argc, char **argv, int index, int otherwise)
{
	return argc > index ? atoi(argv[index]) : otherwise;
}

int main(int argc, char **argv)
{
	int steps = number(argc, argv, 2, 50);
	size_t bytes;
	cudaStream_t stream;

	size = number(argc, argv, 3, 1024);
	kernels = number(argc, argv, 4, 8);
	bytes = sizeof(float) * size * size;
	batch_bytes = (size_t)number(argc, argv, 5, 4) << 20;
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (float **at : { &batch[0], &batch[1], &weights, &result, &sum })
		CHECK(cudaMalloc(at, bytes > batch_bytes ? bytes : batch_bytes));
	CHECK(cudaMallocHost(&host, batch_bytes));
	memset(host, 0, batch_bytes);
	if (argc > 1 && strcmp(argv[1], "serial") != 0 && strcmp(argv[1], "spread") != 0)
		run_base(WARM, stream);
	else
		run_serial(WARM, stream);
	for (const auto &variant : variants) {
		if (argc < 2 || strcmp(variant.name, argv[1]) != 0)
			continue;
		auto begin = std::chrono::steady_clock::now();
		variant.run(steps, stream);
		std::chrono::duration<double, std::milli> took =
			std::chrono::steady_clock::now() - begin;
		printf("{\"variant\": \"%s\", \"ms\": %.3f}\n", variant.name, took.count());
		return 0;
	}
	fprintf(stderr, "Usage: steps base|overlap|graph|streams|serial|spread [STEPS [SIZE [KERNELS [MIB]]]]\n");
	return 2;
}
