/* Streams are queues of work that is delayed as long as a device may delay it. Mostly, work is done only when somebody
 * waits for it; then the next stream to do some is drawn at random. Sometimes, by a draw, some work is done at once.
 * So work that no stream or event orders will sooner or later run in another order, and copies access host memory when
 * its owner may have moved on. Stream NULL: done when the call returns.
 * With SPLIT_SIM_LOCKED in the environment, all streams but the first of a backend that is alone copy only from and to
 * locked memory. With SPLIT_SIM_FAILS=N the device fails at the N-th wait and from then on. With
 * SPLIT_SIM_REFUSES=N only the N-th wait for a stream fails.
 * While a stream records a graph, work queued on it is kept, and queued again by every launch of the graph. A call
 * that a recording does not allow is an error, as on a device. Where a device would record something other than was
 * meant, the process ends. */
#include "tests/support/cuda_sim/cuda_runtime_api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Thread_local int sim_device;

struct sim_event {
	bool timed;
	int device;
	uint64_t recorded, passed;
	double passed_s;
};

struct work {
	struct work *next;
	void (*run)(void *arg), (*drop)(void *arg); /* drop: called when the work will not run again; NULL: this
						     * entry does not own arg */
	void *arg;
	struct sim_event *record, *wait; /* an entry has one of them at most */
	uint64_t round;
};

struct sim_graph {
	struct work *first, **last;
	pthread_t by;
	bool spoiled;
};

struct sim_stream {
	struct sim_stream *next;
	struct work *first, **last;
	struct sim_graph *capture; /* the graph that it records, or NULL */
	int device;
	bool only_locked;
};

/* Memory that a kernel may access. */
struct known {
	struct known *next;
	const char *at;
	size_t bytes;
	bool device; /* else locked host memory */
};

struct copy {
	void *dst;
	const void *src;
	size_t bytes;
	int fill;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_stream *streams;
static struct known *known;
static bool has_memory; /* whether the device has memory of its own; false: all memory is the host's */
static uint32_t luck;
unsigned sim_waits;

static unsigned draw(unsigned most)
{
	if (luck == 0) {
		const char *seed = getenv("SPLIT_SIM_SEED");

		luck = seed ? (uint32_t)strtoul(seed, NULL, 10) | 1 : 1;
	}
	luck = luck * 1664525u + 1013904223u;
	return (luck >> 8) % most;
}

static bool ready(const struct sim_stream *s)
{
	return s->first && (!s->first->wait || s->first->wait->passed >= s->first->round);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void do_first(struct sim_stream *s)
{
	struct work *w = s->first;

	s->first = w->next;
	if (!s->first)
		s->last = &s->first;
	if (w->run)
		w->run(w->arg);
	if (w->drop)
		w->drop(w->arg);
	if (w->record && w->round > w->record->passed)
		w->record->passed = w->round;
	if (w->record)
		w->record->passed_s = now_s();
	free(w);
}

/* The stream that does nothing while another can, for some hundred pieces of work. A fair draw
 * alone would soon let it catch up. */
static const struct sim_stream *slow;

/* Returns the which-th stream that can continue, or NULL; *n: the number of such streams. */
static struct sim_stream *find_ready(bool slow_too, unsigned which, unsigned *n)
{
	struct sim_stream *found = NULL;

	*n = 0;
	for (struct sim_stream *s = streams; s; s = s->next)
		if (ready(s) && (slow_too || s != slow) && (*n)++ == which)
			found = s;
	return found;
}

/* Does one piece of work of a random stream. False: nothing can be done. */
static bool do_some(void)
{
	bool slow_too;
	unsigned n;

	if (draw(300) == 0) {
		slow = streams;
		for (unsigned i = draw(4); i > 0 && slow; i--)
			slow = slow->next;
	}
	slow_too = !find_ready(false, 0, &n);
	if (slow_too)
		find_ready(true, 0, &n);
	if (n == 0)
		return false;
	do_first(find_ready(slow_too, draw(n), &n));
	return true;
}

static void wrong(const char *what)
{
	fprintf(stderr, "cuda_sim: %s\n", what);
	abort();
}

static void must_do_some(void)
{
	if (!do_some())
		wrong("streams wait for events that nothing records");
}

/* A device refuses a launch on another device's stream but accepts a copy; the product must do neither. */
static void must_be_chosen(int device)
{
	if (device != sim_device)
		wrong("a thread queues for a device that it has not chosen");
}

static cudaError_t queue(struct sim_stream *s, const struct work *what)
{
	struct work *w;

	if (!s) {
		what->run(what->arg);
		if (what->drop)
			what->drop(what->arg);
		return cudaSuccess;
	}
	must_be_chosen(s->device);
	w = malloc(sizeof *w);
	if (!w)
		return cudaErrorMemoryAllocation;
	pthread_mutex_lock(&lock);
	*w = *what;
	w->next = NULL;
	if (s->capture) {
		if (!pthread_equal(s->capture->by, pthread_self()))
			wrong("a thread queues what another one's recording takes");
		*s->capture->last = w;
		s->capture->last = &w->next;
		pthread_mutex_unlock(&lock);
		return cudaSuccess;
	}
	*s->last = w;
	s->last = &w->next;
	for (unsigned n = draw(4) == 0 ? draw(8) : 0; n > 0 && do_some(); n--)
		;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t sim_queue(cudaStream_t stream, void (*run)(void *arg), void (*drop)(void *arg), void *arg)
{
	return queue(stream, &(struct work){.run = run, .drop = drop, .arg = arg});
}

static void run_copy(void *arg)
{
	struct copy *c = arg;

	if (c->src)
		memcpy(c->dst, c->src, c->bytes);
	else
		memset(c->dst, c->fill, c->bytes);
}

static cudaError_t queue_copy(cudaStream_t stream, struct copy copy)
{
	struct copy *c = malloc(sizeof *c);

	if (!c)
		return cudaErrorMemoryAllocation;
	*c = copy;
	return sim_queue(stream, run_copy, free, c);
}

static cudaError_t note(const void *ptr, size_t bytes, bool device)
{
	struct known *k = malloc(sizeof *k);

	if (!k)
		return cudaErrorMemoryAllocation;
	pthread_mutex_lock(&lock);
	*k = (struct known){known, ptr, bytes, device};
	known = k;
	has_memory = has_memory || device;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t sim_lock(const void *ptr, size_t bytes)
{
	return note(ptr, bytes, false);
}

cudaError_t sim_own(const void *ptr, size_t bytes)
{
	return note(ptr, bytes, true);
}

void sim_forget(const void *ptr)
{
	pthread_mutex_lock(&lock);
	for (struct known **at = &known; *at; at = &(*at)->next)
		if ((*at)->at == ptr) {
			struct known *k = *at;

			*at = k->next;
			free(k);
			break;
		}
	pthread_mutex_unlock(&lock);
}

static bool is_known(const char *ptr, size_t bytes, bool device, bool host)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (const struct known *k = known; k && !found; k = k->next)
		found = (k->device ? device : host) && ptr >= k->at && bytes <= k->bytes &&
			(size_t)(ptr - k->at) <= k->bytes - bytes;
	pthread_mutex_unlock(&lock);
	return found;
}

void sim_reach(const void *ptr)
{
	if (ptr && has_memory && !is_known(ptr, 0, true, true))
		wrong("a kernel is given memory that it does not reach");
}

/* Checks that the side of a copy that its kind calls device memory is device memory. */
static void must_be_there(const void *ptr, size_t bytes)
{
	if (has_memory && !is_known(ptr, bytes, true, false))
		wrong("a copy is of memory that is not the device's");
}

/* A device accepts a copy of unlocked host memory, but copies through a driver's buffer and waits. */
static void must_be_locked(const void *host, size_t bytes)
{
	if (!is_known(host, bytes, false, true))
		wrong("a copy that should run ahead is of memory that is not locked");
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if (bytes && kind != cudaMemcpyDeviceToHost)
		must_be_there(dst, bytes);
	if (bytes && kind != cudaMemcpyHostToDevice)
		must_be_there(src, bytes);
	if (bytes && stream && stream->capture && kind != cudaMemcpyDeviceToDevice)
		wrong("a recording holds a place of the host's memory");
	if (bytes && stream && stream->only_locked && kind != cudaMemcpyDeviceToDevice)
		must_be_locked(kind == cudaMemcpyHostToDevice ? src : dst, bytes);
	return bytes ? queue_copy(stream, (struct copy){.dst = dst, .src = src, .bytes = bytes}) : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream)
{
	if (bytes)
		must_be_there(dst, bytes);
	return queue_copy(stream, (struct copy){.dst = dst, .bytes = bytes, .fill = byte});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	struct sim_stream *s = calloc(1, sizeof *s);

	(void)flags;
	if (!s)
		return cudaErrorMemoryAllocation;
	s->last = &s->first;
	s->device = sim_device;
	pthread_mutex_lock(&lock);
	s->only_locked = streams && getenv("SPLIT_SIM_LOCKED");
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&lock);
	*out = s;
	return cudaSuccess;
}

static void drain(const struct sim_stream *s)
{
	while (s->first)
		must_do_some();
}

static unsigned long of_environment(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : 0;
}

static unsigned long waits, stream_waits;

/* The injected fault, if any, of a wait; `stream`: for a stream, and not for an event. The caller holds the lock. */
static cudaError_t fault(bool stream)
{
	static unsigned long fails, refuses;
	static bool read;

	fails = read ? fails : of_environment("SPLIT_SIM_FAILS");
	refuses = read ? refuses : of_environment("SPLIT_SIM_REFUSES");
	read = true;
	if (fails && waits >= fails)
		return cudaErrorUnknown;
	return stream && refuses && stream_waits == refuses ? cudaErrorInvalidValue : cudaSuccess;
}

/* The caller holds the lock. Waiting for a recording stream is an error that spoils the recording. */
static bool spoils(cudaStream_t stream)
{
	if (!stream || !stream->capture)
		return false;
	stream->capture->spoiled = true;
	return true;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	cudaError_t said;

	pthread_mutex_lock(&lock);
	if (spoils(stream)) {
		pthread_mutex_unlock(&lock);
		return sim_says(cudaErrorStreamCaptureUnsupported);
	}
	sim_waits++;
	if (stream)
		drain(stream);
	waits++;
	stream_waits++;
	said = fault(true);
	pthread_mutex_unlock(&lock);
	return said;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	cudaError_t said;

	pthread_mutex_lock(&lock);
	said = spoils(stream)            ? cudaErrorStreamCaptureUnsupported
	       : fault(false)            ? cudaErrorUnknown
	       : stream && stream->first ? cudaErrorNotReady
					 : cudaSuccess;
	pthread_mutex_unlock(&lock);
	return sim_says(said);
}

cudaError_t cudaDeviceSynchronize(void)
{
	pthread_mutex_lock(&lock);
	sim_waits++;
	for (const struct sim_stream *s = streams; s; s = s->next)
		drain(s);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	struct sim_stream **at = &streams;

	pthread_mutex_lock(&lock);
	drain(stream);
	while (*at != stream)
		at = &(*at)->next;
	*at = (*at)->next;
	slow = slow == stream ? NULL : slow;
	pthread_mutex_unlock(&lock);
	free(stream);
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	*out = calloc(1, sizeof **out);
	if (!*out)
		return cudaErrorMemoryAllocation;
	(*out)->device = sim_device;
	(*out)->timed = !(flags & cudaEventDisableTiming);
	return cudaSuccess;
}

/* An event recorded in a graph would report nothing about earlier work, and a graph cannot wait for
 * an event outside it. */
static void no_events_in(cudaStream_t stream)
{
	if (stream && stream->capture)
		wrong("a recording holds an event");
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct work record = {.record = event};

	if (stream)
		must_be_chosen(event->device);
	pthread_mutex_lock(&lock);
	no_events_in(stream);
	record.round = ++event->recorded;
	if (!stream)
		event->passed = event->recorded;
	pthread_mutex_unlock(&lock);
	return stream ? queue(stream, &record) : cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	struct work wait = {.wait = event};

	(void)flags;
	pthread_mutex_lock(&lock);
	no_events_in(stream);
	wait.round = event->recorded;
	pthread_mutex_unlock(&lock);
	return stream ? queue(stream, &wait) : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	unsigned idle_ms;
	cudaError_t said;
	uint64_t round;

	pthread_mutex_lock(&lock);
	sim_waits++;
	round = event->recorded;
	idle_ms = event->passed < round && draw(4) ? draw(25) : 0;
	pthread_mutex_unlock(&lock);
	/* leaves other threads time to queue more before any of it is done */
	nanosleep(&(struct timespec){0, (long)idle_ms * 1000000}, NULL);
	pthread_mutex_lock(&lock);
	while (event->passed < round)
		must_do_some();
	waits++;
	said = fault(false);
	pthread_mutex_unlock(&lock);
	return said;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	if (!from->timed || !to->timed || !from->recorded || !to->recorded)
		return cudaErrorInvalidValue;
	pthread_mutex_lock(&lock);
	*ms = (float)((to->passed_s - from->passed_s) * 1000);
	pthread_mutex_unlock(&lock);
	return from->passed == from->recorded && to->passed == to->recorded ? cudaSuccess : cudaErrorUnknown;
}

/* As on a device, queued work may still name the event. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	cudaDeviceSynchronize();
	free(event);
	return cudaSuccess;
}

/* ---- graphs */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	struct sim_graph *g = stream && !stream->capture ? calloc(1, sizeof *g) : NULL;

	(void)mode;
	if (!g)
		return cudaErrorInvalidValue;
	g->last = &g->first;
	g->by = pthread_self();
	pthread_mutex_lock(&lock);
	stream->capture = g;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
	struct sim_graph *g = stream->capture;

	*out = NULL;
	if (!g)
		return cudaErrorInvalidValue;
	pthread_mutex_lock(&lock);
	stream->capture = NULL;
	pthread_mutex_unlock(&lock);
	if (g->spoiled) {
		cudaGraphDestroy(g);
		return sim_says(cudaErrorStreamCaptureUnsupported);
	}
	*out = g;
	return cudaSuccess;
}

/* Takes over the graph's content; a graph may be instantiated only once here. */
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
	struct sim_graph *exec = calloc(1, sizeof *exec);

	(void)flags;
	if (!exec)
		return cudaErrorMemoryAllocation;
	exec->first = graph->first;
	graph->first = NULL;
	*out = exec;
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	cudaError_t err = cudaSuccess;

	for (const struct work *w = exec->first; w && !err; w = w->next)
		err = sim_queue(stream, w->run, NULL, w->arg);
	return err;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	for (struct work *w = graph->first, *next; w; w = next) {
		next = w->next;
		w->drop(w->arg);
		free(w);
	}
	free(graph);
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	cudaDeviceSynchronize();
	return cudaGraphDestroy(exec);
}
