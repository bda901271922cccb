/* The simulated device itself (tests/support/cuda_sim): how threads, barriers and votes behave, and that sanitizers
 * detect faulty kernels. Each faulty kernel runs in a process of its own, beside the same kernel without the fault. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/codec_grid.h"
#include "tests/support/unit.h"

enum { THREADS = 64, BLOCKS = 5, WORDS = THREADS * BLOCKS };

/* ---- kernels, each correct or with a fault */

enum fault {
	RIGHT,
	NO_BARRIER,
	ONE_WORD,
	NO_FENCE,
	NO_FENCE_BEHIND,
	FENCE_TOO_LATE,
	PLAIN,
	BY_VOTE,
	BEYOND,
	BEYOND_SHARED,
	ASKEW
};

static __global__ void neighbours(uint32_t *out, enum fault fault)
{
	__shared__ uint32_t word[THREADS];
	const unsigned t = threadIdx.x;

	word[t] = t;
	if (fault != NO_BARRIER)
		__syncthreads();
	out[blockIdx.x * THREADS + t] = word[(t + 1) % THREADS];
	__syncthreads();
	/* the same words again, written by other threads */
	word[(t + 2) % THREADS] = t;
}

static __global__ void by_block(uint32_t *out, enum fault fault)
{
	if (threadIdx.x == 0)
		out[fault == ONE_WORD ? 0 : blockIdx.x] = blockIdx.x;
}

/* The last block to arrive adds the results of all blocks. */
static __global__ void last_adds(uint32_t *out, uint32_t *part, unsigned *arrived, enum fault fault)
{
	__shared__ bool last;
	const unsigned t = threadIdx.x;

	part[blockIdx.x * THREADS + t] = blockIdx.x + t;
	if (fault != NO_FENCE)
		__threadfence();
	if (fault != FENCE_TOO_LATE)
		__syncthreads();
	if (t == 0)
		last = atomicAdd(arrived, 1) == gridDim.x - 1;
	__syncthreads();
	if (!last)
		return;
	if (fault != NO_FENCE_BEHIND)
		__threadfence();
	out[t] = 0;
	for (unsigned b = 0; b < gridDim.x; b++)
		out[t] += part[b * THREADS + (t + 1) % THREADS];
	if (t == 0)
		atomicExch(arrived, 0);
}

static __global__ void count(unsigned *out, enum fault fault)
{
	if (fault == PLAIN && blockIdx.x == 1 && threadIdx.x == 0)
		*out += 1;
	else
		atomicAdd(out, 1);
}

static __global__ void vote(uint32_t *out, enum fault fault)
{
	__shared__ uint32_t word[THREADS];
	const unsigned t = threadIdx.x;

	word[t] = t;
	out[t] = __ballot_sync(0xffffffffu, t % 3 == 0);
	out[t] += (uint32_t)__shfl_xor_sync(0xffffffffu, (float)t, 1);
	if (fault == BY_VOTE)
		out[t] += word[t ^ 1];
}

static __global__ void reach(uint32_t *out, const uint32_t *in, enum fault fault)
{
	__shared__ uint32_t word[THREADS];
	const uint32_t *volatile first = word; /* hides the array's length from the compiler */
	const unsigned t = threadIdx.x;

	word[t] = in[fault == BEYOND ? WORDS + t % 2 : t];
	__syncthreads();
	out[blockIdx.x * THREADS + t] = first[fault == BEYOND_SHARED ? t + 1 : t];
}

struct __align__(16) quad
{
	uint32_t v[4];
};

static __global__ void vectors(uint32_t *out, const uint32_t *in, enum fault fault)
{
	const struct quad q = *(const struct quad *)(const void *)(in + 4 * threadIdx.x + (fault == ASKEW));

	out[threadIdx.x] = q.v[0] + q.v[3];
}

static void *device(size_t bytes)
{
	void *p = NULL;

	assert_int_equal(posix_memalign(&p, 256, bytes), 0);
	memset(p, 0, bytes);
	return p;
}

/* The thread sanitizer's own library does not support fibers. */
static void need_fibers(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(SIM_RACECHECK)
	skip();
#endif
}

static void run_kernel(enum fault kind, enum fault fault)
{
	uint32_t *out = device(WORDS * 4), *in = device(WORDS * 4);
	unsigned *arrived = device(4);

	switch (kind) {
	case NO_BARRIER:
		CU_LAUNCH(neighbours, BLOCKS, THREADS, NULL, out, fault);
		assert_int_equal(out[3 * THREADS + 7], 8);
		break;
	case ONE_WORD:
		CU_LAUNCH(by_block, BLOCKS, THREADS, NULL, out, fault);
		assert_int_equal(out[4], 4);
		break;
	case NO_FENCE:
	case NO_FENCE_BEHIND:
	case FENCE_TOO_LATE:
		for (int twice = 0; twice < 2; twice++)
			CU_LAUNCH(last_adds, BLOCKS, THREADS, NULL, out, in, arrived, fault);
		assert_int_equal(out[7], 10 + 8 * BLOCKS);
		assert_int_equal(*arrived, 0);
		break;
	case PLAIN:
		CU_LAUNCH(count, BLOCKS, THREADS, NULL, arrived, fault);
		assert_int_equal(*arrived, WORDS);
		break;
	case BY_VOTE:
		CU_LAUNCH(vote, 1, THREADS, NULL, out, fault);
		assert_int_equal(out[4], 0x49249249u + 5);
		assert_int_equal(out[33], 0x92492492u + 32);
		break;
	case BEYOND:
	case BEYOND_SHARED:
		CU_LAUNCH(reach, 2, THREADS, NULL, out, in, fault);
		break;
	default:
		CU_LAUNCH(vectors, 1, THREADS, NULL, out, in, fault);
	}
	free(out);
	free(in);
	free(arrived);
}

/* ---- what sanitizers report */

#if defined(SIM_RACECHECK) || defined(__SANITIZE_ADDRESS__)

/* Runs a kernel in a child process. Returns its exit status; its report goes to `said`. */
static int child(enum fault kind, enum fault fault, char *said, size_t cap)
{
	int pipes[2], status;
	size_t len = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(pipes[1], 2);
		run_kernel(kind, fault);
		exit(0);
	}
	close(pipes[1]);
	while ((got = read(pipes[0], said + len, cap - 1 - len)) > 0)
		len += (size_t)got;
	said[len] = '\0';
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void reported(const enum fault *faults, size_t count, const char *words)
{
	static char said[1 << 16];

	for (size_t i = 0; i < count; i++) {
		if (child(faults[i], RIGHT, said, sizeof said) != 0)
			fail_msg("kernel %d without its fault: %s", (int)faults[i], said);
		if (child(faults[i], faults[i], said, sizeof said) == 0 || strstr(said, words) == NULL)
			fail_msg("fault %d is not reported as '%s': %s", (int)faults[i], words, said);
	}
}

#if defined(SIM_RACECHECK)
static void faults_are_reported(void **state)
{
	static const enum fault faults[] = {NO_BARRIER,     ONE_WORD, NO_FENCE, NO_FENCE_BEHIND,
					    FENCE_TOO_LATE, PLAIN,    BY_VOTE};

	reported(faults, sizeof faults / sizeof faults[0], "data race");
}
#else
static void faults_are_reported(void **state)
{
	static const enum fault faults[] = {BEYOND, BEYOND_SHARED}, askew[] = {ASKEW};

	reported(faults, 2, "AddressSanitizer");
	reported(askew, 1, "misaligned address");
}
#endif
#endif

/* ---- without faults, in any build */

static void kernels_give_what_they_should(void **state)
{
	need_fibers();
	for (int kind = RIGHT + 1; kind <= ASKEW; kind++)
		run_kernel((enum fault)kind, RIGHT);
}

static __global__ void leave_behind(float *out)
{
	__shared__ float word[THREADS];

	out[threadIdx.x] = word[threadIdx.x];
	word[threadIdx.x] = 1;
}

/* Every block finds NaN in its shared memory, whatever the block before left there. */
static void shared_memory_is_nobodys_at_first(void **state)
{
	float *out = device(THREADS * sizeof *out);

	need_fibers();
	for (int launch = 0; launch < 2; launch++) {
		CU_LAUNCH(leave_behind, 1, THREADS, NULL, out);
		for (int t = 0; t < THREADS; t++)
			assert_true(out[t] != out[t]);
	}
	free(out);
}

static void launches_that_no_device_takes_are_errors(void **state)
{
	uint32_t *out = device(4);

	need_fibers();
	assert_int_not_equal(CU_LAUNCH(by_block, 0, 1, NULL, out, RIGHT), cudaSuccess);
	assert_int_not_equal(CU_LAUNCH(by_block, 1, 1025, NULL, out, RIGHT), cudaSuccess);
	assert_int_not_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	free(out);
}

static void events_that_measure_nothing_are_errors(void **state)
{
	cudaEvent_t timed[2], untimed;
	cudaStream_t stream;
	float ms = -1;

	assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cudaEventCreateWithFlags(&timed[i], cudaEventBlockingSync), cudaSuccess);
	assert_int_equal(cudaEventCreateWithFlags(&untimed, cudaEventBlockingSync | cudaEventDisableTiming),
			 cudaSuccess);
	assert_int_equal(cudaEventRecord(timed[0], stream), cudaSuccess);
	assert_int_equal(cudaEventRecord(untimed, stream), cudaSuccess);
	assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
	assert_int_not_equal(cudaEventElapsedTime(&ms, timed[0], untimed), cudaSuccess);
	assert_int_not_equal(cudaEventElapsedTime(&ms, timed[0], timed[1]), cudaSuccess);
	assert_int_equal(cudaEventRecord(timed[1], stream), cudaSuccess);
	assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
	assert_int_equal(cudaEventElapsedTime(&ms, timed[0], timed[1]), cudaSuccess);
	assert_true(ms >= 0);
	for (int i = 0; i < 2; i++)
		cudaEventDestroy(timed[i]);
	cudaEventDestroy(untimed);
	cudaStreamDestroy(stream);
}

/* Exits with 0, or aborts. */
static void copy_ahead(int locks)
{
	static char host[64], there[64];
	cudaStream_t main_one, beside;

	setenv("SPLIT_SIM_LOCKED", "1", 1);
	cudaStreamCreateWithFlags(&main_one, cudaStreamNonBlocking);
	cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking);
	cudaMemcpyAsync(there, host, sizeof host, cudaMemcpyHostToDevice, main_one);
	if (locks)
		sim_lock(host + 1, 40);
	cudaMemcpyAsync(there, host + 1, 40, cudaMemcpyHostToDevice, beside);
	cudaMemcpyAsync(host + 2, there, 39, cudaMemcpyDeviceToHost, beside);
	cudaDeviceSynchronize();
	sim_forget(host + 1);
	cudaMemcpyAsync(host + 2, there, 39, cudaMemcpyDeviceToHost, locks ? main_one : beside);
	cudaDeviceSynchronize();
	_exit(0);
}

/* Runs run(which), which ends with _exit(0), in a child process; returns whether that aborted. */
static bool aborts(void (*run)(int which), int which)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		if (freopen("/dev/null", "w", stderr) != NULL)
			run(which);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

static void copies_ahead_are_of_locked_memory(void **state)
{
	assert_true(aborts(copy_ahead, false));
	assert_false(aborts(copy_ahead, true));
}

enum use { REACHED, BY_KERNEL, BY_COPY, BY_CLEARING, REACHES };

static void use_memory(int fault)
{
	static char there[64], locked[64], other[64];

	if (sim_own(there, sizeof there) || sim_lock(locked, sizeof locked))
		_exit(2);
	sim_reach(NULL);
	sim_reach(there + 8);
	sim_reach(fault == BY_KERNEL ? other : locked + 8);
	cudaMemcpyAsync(fault == BY_COPY ? other : there, locked, 8, cudaMemcpyHostToDevice, NULL);
	cudaMemcpyAsync(other, there, sizeof there, cudaMemcpyDeviceToHost, NULL);
	cudaMemsetAsync(fault == BY_CLEARING ? locked : there, 0, 8, NULL);
	_exit(0);
}

static void what_a_device_does_not_reach_is_seen(void **state)
{
	for (int fault = REACHED; fault < REACHES; fault++)
		assert_int_equal(aborts(use_memory, fault), fault != REACHED);
}

/* ---- recordings */

static void a_recording_is_done_by_its_launches(void **state)
{
	unsigned char there[4] = {0}, more[4] = {0};
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
	assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
	cudaMemsetAsync(there, 7, sizeof there, stream);
	cudaMemcpyAsync(more, there, sizeof more, cudaMemcpyDeviceToDevice, stream);
	assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
	assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
	cudaGraphDestroy(graph);
	cudaStreamSynchronize(stream);
	assert_int_equal(more[3], 0);
	for (int i = 0; i < 2; i++) {
		memset(more, 0, sizeof more);
		assert_int_equal(cudaGraphLaunch(exec, stream), cudaSuccess);
		cudaStreamSynchronize(stream);
		assert_int_equal(more[3], 7);
	}
	cudaGraphExecDestroy(exec);
	/* waiting for a recording stream spoils the recording, and gives an error that is reported once more */
	assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
	cudaMemsetAsync(there, 8, sizeof there, stream);
	cudaGetLastError();
	assert_int_not_equal(cudaStreamSynchronize(stream), cudaSuccess);
	assert_int_not_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	assert_int_not_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
	assert_int_equal(there[0], 7);
	cudaStreamDestroy(stream);
}

enum mistake { NONE, HOST_COPY, EVENT, WAIT, OTHER_THREAD, OTHER_DEVICE, MISTAKES };

static unsigned char there_too[16];

static void *set_there(void *stream)
{
	cudaMemsetAsync(there_too, 1, sizeof there_too, stream);
	return NULL;
}

static void record_with(int mistake)
{
	static unsigned char host[16];
	cudaStream_t stream;
	cudaEvent_t event;
	cudaGraph_t graph;
	pthread_t thread;

	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
	cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
	set_there(stream);
	if (mistake == HOST_COPY)
		cudaMemcpyAsync(there_too, host, sizeof host, cudaMemcpyHostToDevice, stream);
	if (mistake == EVENT)
		cudaEventRecord(event, stream);
	if (mistake == WAIT)
		cudaStreamWaitEvent(stream, event, 0);
	if (mistake == OTHER_THREAD && pthread_create(&thread, NULL, set_there, stream) == 0)
		pthread_join(thread, NULL);
	if (mistake == OTHER_DEVICE) {
		sim_device = 1;
		set_there(stream);
	}
	_exit(cudaStreamEndCapture(stream, &graph) == cudaSuccess ? 0 : 2);
}

static void what_no_recording_may_hold_is_seen(void **state)
{
	for (int mistake = NONE; mistake < MISTAKES; mistake++)
		assert_int_equal(aborts(record_with, mistake), mistake != NONE);
}

/* usage: test_cuda_sim [TEST] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_give_what_they_should),
		cmocka_unit_test(shared_memory_is_nobodys_at_first),
		cmocka_unit_test(launches_that_no_device_takes_are_errors),
		cmocka_unit_test(events_that_measure_nothing_are_errors),
		cmocka_unit_test(copies_ahead_are_of_locked_memory),
		cmocka_unit_test(what_a_device_does_not_reach_is_seen),
		cmocka_unit_test(a_recording_is_done_by_its_launches),
		cmocka_unit_test(what_no_recording_may_hold_is_seen),
#if defined(SIM_RACECHECK) || defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(faults_are_reported),
#endif
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("simulated device", tests, NULL, NULL);
}
